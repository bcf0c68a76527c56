package routing

import "slices"

// Code is why a candidate was excluded. Codes are ordered as their filters are: of several filters
// that empty the list, the last one names the error.
type Code uint8

// The exclusion codes.
const (
	Eligible Code = iota
	CodeTried
	CodeDeactivated
	CodeDeprecated
	CodeNotAllowed
	CodeNoProviderKey
	CodeLockedRegion
	CodeContextSize
	CodeMaxTokens
	CodeVision
	CodeAudio
	CodeDocuments
	CodeTools
	CodeToolChoice
	CodeJSONOutput
	CodeJSONSchema
	CodeReasoningEffort
	CodeNoReasoningVariant
	CodeN
	CodeWebSearch
	CodeAssistantPrefill
	CodeServiceTier
	CodeSafeguards
	CodeCompliance
	CodeUnstable
	CodeDisabled
	CodeRateLimited
	CodeCooldown
	CodeLowUptime
	codeCount
)

var codeNames = [codeCount]string{
	Eligible:               "",
	CodeTried:              "tried",
	CodeDeactivated:        "deactivated",
	CodeDeprecated:         "deprecated",
	CodeNotAllowed:         "not_allowed",
	CodeNoProviderKey:      "no_provider_key",
	CodeLockedRegion:       "locked_region",
	CodeContextSize:        "context_size",
	CodeMaxTokens:          "max_tokens",
	CodeVision:             "vision",
	CodeAudio:              "audio",
	CodeDocuments:          "documents",
	CodeTools:              "tools",
	CodeToolChoice:         "tool_choice",
	CodeJSONOutput:         "json_output",
	CodeJSONSchema:         "json_schema",
	CodeReasoningEffort:    "reasoning_effort",
	CodeNoReasoningVariant: "no_reasoning_variant",
	CodeN:                  "n_unsupported",
	CodeWebSearch:          "web_search",
	CodeAssistantPrefill:   "assistant_prefill",
	CodeServiceTier:        "service_tier",
	CodeSafeguards:         "safeguards",
	CodeCompliance:         "compliance",
	CodeUnstable:           "unstable",
	CodeDisabled:           "disabled",
	CodeRateLimited:        "rate_limited",
	CodeCooldown:           "cooldown",
	CodeLowUptime:          "low_uptime",
}

// String is the code as it is shown and stored.
func (c Code) String() string {
	if c < codeCount {
		return codeNames[c]
	}
	return ""
}

// ParseCode is the inverse of String; a name that is no code is Eligible.
func ParseCode(name string) Code {
	return Code(max(slices.Index(codeNames[:], name), 0))
}

// capabilityCodes are the codes of missing capabilities, by bit.
var capabilityCodes = [...]Code{
	CodeVision, CodeAudio, CodeDocuments, CodeTools, CodeToolChoice, CodeJSONOutput, CodeJSONSchema,
	CodeReasoningEffort, CodeN, CodeWebSearch, CodeAssistantPrefill, CodeSafeguards,
}
