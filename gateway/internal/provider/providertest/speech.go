package providertest

import "encoding/json"

// Speech is how an upstream writes.
type Speech struct {
	// Plain and Events are an answer.
	Plain  func(s Said) string
	Events func(s Said) []string
	// Failed is an error as a body, FailedEvent as an event.
	Failed, FailedEvent string
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
