package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

// codes say in words why a candidate could not serve.
var codes = map[routing.Code]string{
	routing.CodeTried:              "it had been chosen, but its keys became unusable before the call",
	routing.CodeDeactivated:        "the mapping is deactivated",
	routing.CodeDeprecated:         "the mapping is deprecated, and others are not",
	routing.CodeNotAllowed:         "the API key or plan may not use the model",
	routing.CodeNoProviderKey:      "there is no key for it in this project's mode, or others have a tenant's key, which goes first",
	routing.CodeLockedRegion:       "another region was asked for, or its keys are locked to another",
	routing.CodeContextSize:        "prompt and answer do not fit into its context",
	routing.CodeMaxTokens:          "it does not write answers as long as asked for",
	routing.CodeVision:             "it takes no images",
	routing.CodeAudio:              "it takes no audio",
	routing.CodeDocuments:          "it takes no documents",
	routing.CodeTools:              "it has no tools",
	routing.CodeToolChoice:         "it does not honour tool_choice",
	routing.CodeJSONOutput:         "it does not promise JSON",
	routing.CodeJSONSchema:         "it does not follow a JSON schema",
	routing.CodeReasoningEffort:    "it does not reason, or not that hard",
	routing.CodeNoReasoningVariant: "it always reasons",
	routing.CodeN:                  "it gives one choice only",
	routing.CodeWebSearch:          "it has no web search",
	routing.CodeAssistantPrefill:   "it does not continue a begun answer",
	routing.CodeServiceTier:        "it does not sell the service tier",
	routing.CodeSafeguards:         "it does not offer the safeguards",
	routing.CodeCompliance:         "it does not meet the data policy",
	routing.CodeUnstable:           "it is unstable or experimental, and others are not",
	routing.CodeDisabled:           "its priority is 0",
	routing.CodeRateLimited:        "a rate limit on it is reached",
	routing.CodeCooldown:           "every usable key is cooling down",
	routing.CodeLowUptime:          "its uptime is low, and others are well",
}

func codeWords(c *attempt.Considered, d *decided) string {
	code := routing.ParseCode(c.ExcludedCode)
	words := codes[code]
	switch {
	case words == "":
		return "a code of another release"
	case code == routing.CodeCooldown:
		cause := "errors"
		if c.CooldownCause == "rate_limit" {
			cause = "a 429"
		}
		words += " after " + cause
		if c.CooldownEndsMS > 0 {
			words += ", for " + (time.Duration(c.CooldownEndsMS) * time.Millisecond).String() + " more"
		}
	case c.CooldownCause == "invalid_key":
		words = "every key for it was refused as invalid, and is removed until it changes"
	case code == routing.CodeContextSize:
		words += fmt.Sprintf(": about %d tokens of prompt and ", d.promptTokens)
		if d.maxTokens > 0 {
			words += fmt.Sprintf("%d of answer", d.maxTokens)
		} else {
			words += "an answer of no given length"
		}
	case code == routing.CodeMaxTokens && d.maxTokens > 0:
		words += fmt.Sprintf(": %d tokens", d.maxTokens)
	case code == routing.CodeServiceTier && d.tier != "":
		words += " " + d.tier
	case code == routing.CodeLowUptime && c.Uptime != nil:
		words += fmt.Sprintf(": %s %%", number(*c.Uptime))
	}
	return words
}

// reasons say in words why the chosen one was chosen.
var reasons = map[routing.Reason]string{
	routing.DirectProvider:    "the request named the provider",
	routing.LowUptimeFallback: "the provider that the request named has a low uptime, and this is the best of those that are better",
	routing.RateLimitFallback: "the provider that the request named has reached a rate limit, and this is the best of the others",
	routing.SingleProvider:    "nobody else serves the model",
	routing.SingleCandidate:   "all others were left out",
	routing.RandomExploration: "the request was drawn to explore, so that all are measured",
	routing.ProviderOrder:     "it is the first of the order asked for that can serve",
	routing.StablePreferred:   "it served such requests last and is hardly worse than the best, so it stays",
	routing.PriceOnly:         "nothing is known of anybody but the price, and it is the cheapest",
	routing.WeightedScore:     "it has the lowest score",
}

func whyWords(d *Decision) string {
	if d.Selected == nil {
		if d.BoundTo != "" {
			return "the request replays reasoning that only " + d.BoundTo + " can read, and that provider cannot serve it"
		}
		if len(d.Candidates) > 0 {
			return "who was chosen became unusable before the call, and so did everybody else"
		}
		return "nobody was left to choose from"
	}
	words := reasons[routing.Reason(d.Reason)]
	switch {
	case routing.Reason(d.Reason) == routing.SessionSticky && d.Remembered != nil && d.Remembered.Provider == d.Selected.Provider && d.Remembered.Region == d.Selected.Region:
		words = "its session is pinned to it"
	case routing.Reason(d.Reason) == routing.SessionSticky && d.Remembered != nil:
		words = "its session was pinned to " + name(d.Remembered) + ", which could not keep it, so the best score was pinned anew"
	case routing.Reason(d.Reason) == routing.SessionSticky:
		words = "the first request of a session goes to the lowest score, and the session stays there"
	case words == "":
		words = "for a reason of another release"
	}
	if d.BoundTo != "" {
		words += "; the request replays reasoning that only " + d.BoundTo + " can read, so nobody else may serve it"
	}
	if d.OriginalUptime != nil {
		words += fmt.Sprintf("; %s had %s %%", d.OriginalProvider, number(*d.OriginalUptime))
	}
	if d.Redecided {
		var tried []string
		for _, x := range d.Excluded {
			if x.Code == routing.CodeTried.String() {
				tried = append(tried, name(&x.Place))
			}
		}
		words += "; chosen first was " + strings.Join(tried, ", then ") + ", whose keys became unusable before the call"
	}
	return words
}

// refusals say in words what an error code means.
var refusals = map[string]string{
	routing.ErrNoProvider:           "nobody can serve such a request",
	routing.ErrNotAllowed:           "the API key may not use the model",
	routing.ErrRegionUnavailable:    "nobody meets the data policy",
	routing.ErrSafeguards:           "nobody offers the safeguards asked for",
	routing.ErrRateLimited:          "the rate limit of everybody who could serve is reached",
	routing.ErrAllLimited:           "everybody who could serve is cooling down after limiting our rate",
	routing.ErrProvidersUnavailable: "nobody who could serve has a usable key",
	routing.ErrModelRetired:         "every mapping of the model is deactivated",
	routing.ErrReasoningProvider:    "the reasoning in the request can only go back to its issuer",
	routing.ErrInvalidValue:         "a value of the request cannot be used",
	"model_not_found":               "the catalogue does not know the model",
	"unknown_region":                "the model has no such region",
}

func refusalWords(e *attempt.Refused) string {
	if words := refusals[e.ErrorCode]; words != "" {
		return words
	}
	return "the request was refused"
}

// howWords says how the gateway came to an attempt.
func (s *Stored) howWords(i int) string {
	e := &s.Attempts[i]
	switch {
	case i == 0 && e.AttemptNo == 1:
		return "first choice"
	case i == 0:
		return "the attempts before are not stored (yet)"
	}
	before := &s.Attempts[i-1]
	if before.Provider != e.Provider || before.Region != e.Region {
		return "another candidate"
	}
	if before.ProviderKeyHash != e.ProviderKeyHash {
		return "another key of the same provider"
	}
	return "the same key again"
}

// outcomes say in words how an attempt ended.
var outcomes = map[attempt.Outcome]string{
	attempt.Completed:       "served",
	attempt.GatewayError:    "the provider refused us",
	attempt.UpstreamError:   "the provider failed",
	attempt.UpstreamTimeout: "the provider took too long",
	attempt.NetworkError:    "the connection failed",
	attempt.ClientError:     "the request was at fault",
	attempt.ContentFilter:   "the provider's filter refused it",
	attempt.Canceled:        "the client left",
	attempt.Interrupted:     "the gateway died during the call",
}

// needs names what a request needs, without what is said elsewhere.
func needs(traits []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(traits), func(t string) bool {
		return strings.HasPrefix(t, attempt.TraitBoundTo) || t == attempt.TraitStrict || t == attempt.TraitReasoningBound || t == attempt.TraitImageOutput
	}), ", ")
}
