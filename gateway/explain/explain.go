// Package explain tells how a request was decided: who was considered with which score, who was left
// out and why, what was chosen, what became of each attempt and what it cost. It decides again from
// what is stored and says whether it comes out the same.
//
// Everything but the store (clickhouse.go) and the command (command.go) computes from its arguments.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

// ErrUnknown says that nothing is stored of a request.
var ErrUnknown = errors.New("nothing is stored of the request")

// Store reads what is stored of requests. Its methods block until the store has answered or ctx ends,
// and may be called concurrently. What is not there is no error: lists are empty, bodies nil.
type Store interface {
	// Attempts returns the attempts of a request, each once, in any order.
	Attempts(ctx context.Context, requestID string) ([]attempt.Event, error)
	// Refusals returns the refusal of a request that made no call; its record may stand there twice.
	Refusals(ctx context.Context, requestID string) ([]attempt.Refused, error)
	// RoutingConfig and PriceBook return what a version in an event stands for.
	RoutingConfig(ctx context.Context, version string) ([]byte, error)
	PriceBook(ctx context.Context, version string) ([]byte, error)
}

// Stored is all that is stored of one request.
type Stored struct {
	RequestID string
	Attempts  []attempt.Event // by number
	Refusal   *attempt.Refused
	Config    *resource.Resolved  // nil: not stored
	Prices    *resource.PriceBook // nil: not stored
}

// Read gathers what is stored of a request. The error is ErrUnknown if that is nothing.
func Read(ctx context.Context, store Store, requestID string) (*Stored, error) {
	s := &Stored{RequestID: requestID}
	var err error
	if s.Attempts, err = store.Attempts(ctx, requestID); err != nil {
		return nil, fmt.Errorf("reading the attempts of request %s: %w", requestID, err)
	}
	slices.SortStableFunc(s.Attempts, func(a, b attempt.Event) int { return a.AttemptNo - b.AttemptNo })
	var config, prices string
	if len(s.Attempts) > 0 {
		config, prices = s.Attempts[0].ConfigVersion, s.Attempts[0].PriceVersion
	} else { // a request that made a call was not refused
		refusals, err := store.Refusals(ctx, requestID)
		if err != nil {
			return nil, fmt.Errorf("reading the refusal of request %s: %w", requestID, err)
		}
		if len(refusals) == 0 {
			return nil, ErrUnknown
		}
		s.Refusal = &refusals[0]
		config, prices = s.Refusal.ConfigVersion, s.Refusal.PriceVersion
	}
	body, err := store.RoutingConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("reading routing configuration %s: %w", config, err)
	}
	if body != nil {
		if s.Config, err = resource.ParseResolved(body); err != nil {
			return nil, fmt.Errorf("routing configuration %s: %w", config, err)
		}
	}
	if body, err = store.PriceBook(ctx, prices); err != nil {
		return nil, fmt.Errorf("reading price book %s: %w", prices, err)
	}
	if body != nil {
		if s.Prices, err = resource.ParsePriceBook(body); err != nil {
			return nil, fmt.Errorf("price book %s: %w", prices, err)
		}
	}
	return s, nil
}

// Explain reads what is stored of a request and explains it. The error is ErrUnknown if nothing is.
func Explain(ctx context.Context, store Store, requestID string) (*Report, error) {
	s, err := Read(ctx, store, requestID)
	if err != nil {
		return nil, err
	}
	return s.Report(), nil
}
