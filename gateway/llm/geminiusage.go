package llm

// GeminiUsage reads usageMetadata in Gemini's accounting: cached tokens are inside the prompt's, those of
// tools that Google runs stand beside it, thoughts beside the answer's, and lists tell the kinds apart.
// What is refused is refused as in OpenAIUsage.
func GeminiUsage(raw []byte, contextLimit int64) Usage {
	r := newUsageReader(contextLimit)
	var prompt, tools, answer, thoughts int64
	var in, cached, out kinds
	c, u := &r.cursor, &r.u
	c.ResetLoose(raw)
	c.EachField(func(key []byte) {
		switch string(key) {
		case "promptTokenCount":
			prompt = r.mainCount()
		case "candidatesTokenCount":
			answer = r.mainCount()
		case "thoughtsTokenCount":
			thoughts = r.mainCount()
		case "toolUsePromptTokenCount":
			tools = r.detail()
		case "cachedContentTokenCount":
			u.CachedInputTokens = r.detail()
		case "promptTokensDetails", "toolUsePromptTokensDetails":
			r.kinds(&in)
		case "cacheTokensDetails":
			r.kinds(&cached)
		case "candidatesTokensDetails":
			r.kinds(&out)
		}
	})
	u.InputTokens, u.OutputTokens, u.ReasoningTokens = prompt+tools, answer+thoughts, thoughts
	u.ImageInputTokens, u.AudioInputTokens = max(in.image-cached.image, 0), max(in.audio-cached.audio, 0)
	u.ImageOutputTokens, u.AudioOutputTokens = out.image, out.audio
	return r.finish()
}

// kinds are the tokens that may have a price of their own.
type kinds struct{ image, audio int64 }

// kinds adds up a list of {"modality","tokenCount"}.
func (r *usageReader) kinds(to *kinds) {
	c := &r.cursor
	c.EachItem(func(int) {
		var count int64
		var image, audio bool
		c.EachField(func(key []byte) {
			switch string(key) {
			case "modality":
				word := string(c.RawString())
				image, audio = word == `"IMAGE"`, word == `"AUDIO"`
			case "tokenCount":
				count = r.detail()
			}
		})
		switch {
		case image:
			to.image += count
		case audio:
			to.audio += count
		}
	})
}
