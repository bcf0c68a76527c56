package llm

import "strings"

// sessionHeaders in the order they are asked (routing.md 5). Never x-client-request-id.
var sessionHeaders = [...]string{
	"X-Session-Id", "X-Session-Affinity", "session_id", "Session-Id",
	"X-Claude-Code-Session-Id", "X-Opencode-Session", "Thread-Id", "conversation_id",
}

// SessionKey is the id of the session a chat request belongs to, "" for none: the first that is not
// empty of the session headers, then the body's session_id, prompt_cache_key and, if useUser, user.
// header is http.Header.Get or the like; names are case-insensitive there.
func SessionKey(header func(name string) string, f *Facts, useUser bool) string {
	for _, name := range sessionHeaders {
		if v := strings.TrimSpace(header(name)); v != "" {
			return v
		}
	}
	for _, v := range [...]string{f.SessionID, f.PromptCacheKey} {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	if !useUser {
		return ""
	}
	return strings.TrimSpace(f.User)
}

// codingClients tells coding clients by what they call themselves. names match x-source and x-title as
// a whole, agents anywhere at the start of a word of User-Agent, hosts anywhere in the referer.
var codingClients = [...]struct {
	id                   string
	names, agents, hosts []string
}{
	{"claude-code", []string{"claude-code", "claude code"}, []string{"claude-cli/", "claude-code"}, []string{"claude.com/claude-code"}},
	{"codex", []string{"codex", "codex-cli", "codex cli"}, []string{"codex_cli_rs/", "codex-cli", "codex-tui", "codex_vscode", "codex_exec", "codex/"}, nil},
	{"opencode", []string{"opencode", "open-code"}, []string{"opencode", "open-code"}, []string{"opencode.ai"}},
	{"roo-code", []string{"roo-code", "roo code", "roo-cline"}, []string{"roo-code", "roocode", "roo-cline"}, []string{"roocode.com", "roo-cline"}},
	{"cline", []string{"cline"}, []string{"cline"}, []string{"cline.bot"}},
	{"kilo-code", []string{"kilo-code", "kilo code", "kilocode"}, []string{"kilo-code", "kilocode"}, []string{"kilocode.ai", "kilo.ai"}},
	{"cursor", []string{"cursor"}, []string{"cursor/", "cursor-"}, []string{"cursor.com", "cursor.sh"}},
	{"aider", []string{"aider"}, []string{"aider"}, []string{"aider.chat"}},
	{"continue", []string{"continue"}, []string{"continue/", "continue-"}, []string{"continue.dev"}},
	{"windsurf", []string{"windsurf", "codeium"}, []string{"windsurf", "codeium"}, []string{"windsurf.com", "codeium.com"}},
	{"zed", []string{"zed"}, []string{"zed/", "zed-"}, []string{"zed.dev"}},
	{"github-copilot", []string{"github-copilot", "github copilot", "copilot"}, []string{"githubcopilot", "github-copilot", "copilot/"}, []string{"github.com/features/copilot"}},
	{"crush", []string{"crush"}, []string{"charm-crush", "crush/"}, []string{"charm.land"}},
	{"kimi-code", []string{"kimi-code", "kimi code", "kimi-cli"}, []string{"kimi-code", "kimi-cli", "kimicli"}, nil},
	{"qwen-code", []string{"qwen-code", "qwen code"}, []string{"qwen-code", "qwencode"}, nil},
	{"factory-droid", []string{"factory-droid", "factory droid", "droid"}, []string{"factory-droid", "factory-cli"}, []string{"factory.ai"}},
	{"goose", []string{"goose"}, []string{"goose/", "goose-"}, []string{"block.github.io/goose"}},
	{"gemini-cli", []string{"gemini-cli", "gemini cli"}, []string{"gemini-cli", "geminicli"}, nil},
}

// CodingClient recognises a coding client by User-Agent, x-source, x-title and referer; "" for none:
// never by a session id, and not curl, browsers or plain SDKs.
func CodingClient(header func(name string) string) string {
	agent := strings.ToLower(header("User-Agent"))
	source := strings.ToLower(strings.TrimSpace(header("X-Source")))
	title := strings.ToLower(strings.TrimSpace(header("X-Title")))
	referer := strings.ToLower(header("Referer"))
	if agent == "" && source == "" && title == "" && referer == "" {
		return ""
	}
	for i := range codingClients {
		c := &codingClients[i]
		for _, name := range c.names {
			if source == name || title == name {
				return c.id
			}
		}
		for _, word := range c.agents {
			if wordStart(agent, word) {
				return c.id
			}
		}
		for _, host := range c.hosts {
			if strings.Contains(source, host) || strings.Contains(referer, host) {
				return c.id
			}
		}
	}
	return ""
}

// wordStart says whether word stands in s with nothing or a non-letter before it.
func wordStart(s, word string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return false
		}
		if at := from + i; at == 0 || !letter(s[at-1]) {
			return true
		}
		from += i + 1
	}
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
