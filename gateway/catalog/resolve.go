package catalog

import "time"

// Query is what a model id is read for.
type Query struct {
	Organization string // whose custom providers count
	Publisher    bool   // the project reads a/b as publisher and model
	Now          time.Time
}

// Result says what a model id means.
type Result struct {
	Model    *Model // nil for Auto
	Auto     bool   // the model `auto`: the caller chooses one
	Provider string // named by the id; "" leaves the choice open
	Strict   bool   // provider:model: that provider and no other
	Region   string // named by the id
	Strategy string // of a routing suffix: throughput, latency or price; "" without one
}

// Error is why an id means nothing, ready for the client's error envelope.
type Error struct {
	Status  int
	Code    string
	Message string
	Param   string
}

func (e *Error) Error() string { return e.Message }
