//go:build agents

package agents

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

var opencode = agent{
	name: "opencode", client: "opencode", bin: "opencode-linux-x64/bin/opencode", model: "m", ownSubSession: true,
	setup: func(r *run) ([]string, []string) {
		r.put(filepath.Join(r.home, ".config/opencode/opencode.json"), compact(object{
			"$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "permission": "allow", "snapshot": false,
			"model": "gw/m", "small_model": "gw/small",
			"provider": object{"gw": object{"npm": "@ai-sdk/openai-compatible", "name": "gw", "options": object{"baseURL": r.gateway.url + "/v1", "apiKey": token},
				"models": object{"m": object{"name": "m"}, "small": object{"name": "small"}}}},
		}))
		// It would fetch a package for plugins if it did not find it here.
		plugin := object{"dependencies": object{"@opencode-ai/plugin": "*"}}
		r.put(filepath.Join(r.home, ".config/opencode/node_modules/.keep"), "")
		r.put(filepath.Join(r.home, ".config/opencode/package.json"), compact(plugin))
		r.put(filepath.Join(r.home, ".config/opencode/package-lock.json"), compact(object{"packages": object{"": plugin}}))
		return []string{"run", "-m", "gw/m", prompt}, []string{
			"OPENCODE_DISABLE_AUTOUPDATE=true", "OPENCODE_DISABLE_MODELS_FETCH=true", "OPENCODE_DISABLE_LSP_DOWNLOAD=true", "OPENCODE_DISABLE_DEFAULT_PLUGINS=true",
		}
	},
	script: func(work string) []batch {
		return []batch{
			{{name: "read", input: object{"filePath": filepath.Join(work, sumFile)}, wants: "$1 - $2"}, {name: "read", input: object{"filePath": filepath.Join(work, testFile)}, wants: "outcome.txt"}},
			{{name: "edit", input: object{"filePath": filepath.Join(work, sumFile), "oldString": "$1 - $2", "newString": "$1 + $2"}}},
			{{name: "bash", input: object{"command": runTest, "description": "Runs the test"}, wants: "passed"}},
			{{name: "task", input: object{"description": "Look again", "prompt": subPrompt, "subagent_type": "general"}, wants: subWord}},
		}
	},
}

var claudeCode = agent{
	name: "claude-code", client: "claude-code", bin: "@anthropic-ai/claude-code-linux-x64/claude", model: "m",
	setup: func(r *run) ([]string, []string) {
		return []string{"-p", "--dangerously-skip-permissions", prompt}, []string{
			"ANTHROPIC_BASE_URL=" + r.gateway.url, "ANTHROPIC_AUTH_TOKEN=" + token, "ANTHROPIC_MODEL=m", "ANTHROPIC_DEFAULT_HAIKU_MODEL=small",
			"ANTHROPIC_DEFAULT_SONNET_MODEL=m", "ANTHROPIC_DEFAULT_OPUS_MODEL=m",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1",
		}
	},
	script: func(work string) []batch {
		return []batch{
			{{name: "Read", input: object{"file_path": filepath.Join(work, sumFile)}, wants: "$1 - $2"}, {name: "Read", input: object{"file_path": filepath.Join(work, testFile)}, wants: "outcome.txt"}},
			{{name: "Edit", input: object{"file_path": filepath.Join(work, sumFile), "old_string": "$1 - $2", "new_string": "$1 + $2"}, wants: "updated"}},
			{{name: "Bash", input: object{"command": runTest, "description": "Runs the test"}, wants: "passed"}},
			{{name: "Agent", input: object{"description": "Look again", "prompt": subPrompt, "subagent_type": "general-purpose", "run_in_background": false}, wants: subWord}},
		}
	},
}

// codex knows the model gpt-5.5 and gives it apply_patch, which takes a text.
var codex = agent{
	name: "codex", client: "codex", bin: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", model: "gpt-5.5",
	setup: func(r *run) ([]string, []string) { return codexSetup(r, "gpt-5.5") },
	script: func(string) []batch {
		patch := fmt.Sprintf("*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\n", sumFile, wrongSum, rightSum)
		return []batch{
			{{name: "exec_command", input: object{"cmd": "cat sum.sh"}, wants: "$1 - $2"}, {name: "exec_command", input: object{"cmd": "cat test.sh"}, wants: "outcome.txt"}},
			{{name: "apply_patch", freeform: patch, wants: "sum.sh"}},
			{{name: "exec_command", input: object{"cmd": runTest}, wants: "passed"}},
		}
	},
}

// codexAgents is codex with a model it does not know, to which it gives a namespace of tools for sub-agents.
var codexAgents = agent{
	name: "codex-m", client: "codex", bin: codex.bin, model: "m",
	setup: func(r *run) ([]string, []string) { return codexSetup(r, "m") },
	script: func(string) []batch {
		const space = "multi_agent_v1"
		return []batch{
			{{name: "exec_command", input: object{"cmd": "cat sum.sh test.sh"}, wants: "$1 - $2"}},
			{{name: "exec_command", input: object{"cmd": "sed -i 's/1 - /1 + /' sum.sh && sh test.sh"}, wants: "passed"}},
			{{space: space, name: "spawn_agent", input: object{"message": subPrompt}, wants: "agent_id"}},
			{{space: space, name: "wait_agent", from: func(before []string) object {
				var spawned struct {
					ID string `json:"agent_id"`
				}
				_ = json.Unmarshal([]byte(before[len(before)-1]), &spawned)
				return object{"targets": []string{spawned.ID}, "timeout_ms": 20000}
			}, wants: subWord}},
		}
	},
}

// codexCode is codex with a model that calls tools from JavaScript: its one way to them is a tool that takes
// a text, which comes in an item of the input.
var codexCode = agent{
	name: "codex-code", client: "codex", bin: codex.bin, model: "gpt-5.6-sol",
	setup: func(r *run) ([]string, []string) { return codexSetup(r, "gpt-5.6-sol") },
	script: func(string) []batch {
		exec := func(wants, code string) batch {
			return batch{{space: "functions", name: "exec", freeform: code, wants: wants}}
		}
		shell := func(command string) string {
			return "text(JSON.stringify(await tools.exec_command(" + compact(object{"cmd": command}) + ")));\n"
		}
		patch := fmt.Sprintf("*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\n", sumFile, wrongSum, rightSum)
		return []batch{
			exec("$1 - $2", `notify("reading");`+"\n"+shell("cat sum.sh test.sh")),
			exec("mended", "await tools.apply_patch("+compact(patch)+");\ntext('mended');\n"),
			exec("passed", shell(runTest)),
		}
	},
}

func codexSetup(r *run, model string) ([]string, []string) {
	r.put(filepath.Join(r.home, ".codex/config.toml"), fmt.Sprintf(`model = %q
model_provider = "gw"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false

[model_providers.gw]
name = "gw"
base_url = "%s/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
`, model, r.gateway.url))
	return []string{"exec", "--skip-git-repo-check", prompt}, []string{"GATEWAY_KEY=" + token}
}
