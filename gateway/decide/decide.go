// Package decide is `turnout decide`: one routing decision by the gateway's own code, on paper. It
// reads a scenario, needs no server, clock or network, and prints the decision with every factor.
package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"turnout/gateway/routing"
	"turnout/internal/lifecycle"
)

// maxScenario bounds what is read from standard input, in bytes.
const maxScenario = 64 << 20

// Main reads a scenario from standard input and prints the decision. Input that cannot be read is a
// usage error, in one line that names the path; that nobody can serve the request is a decision.
func Main(_ context.Context, env lifecycle.Env) error {
	if len(env.Args) == 1 && slices.Contains([]string{"help", "-h", "--help"}, env.Args[0]) {
		_, err := io.WriteString(env.Stdout, "turnout decide < scenario.json: one routing decision, on paper; docs/routing.md shows scenarios\n")
		return err
	}
	if len(env.Args) > 0 {
		return lifecycle.Usage(errors.New("decide takes no arguments: turnout decide < scenario.json"))
	}
	data, err := io.ReadAll(io.LimitReader(env.Stdin, maxScenario+1))
	if err != nil {
		return fmt.Errorf("reading the scenario: %w", err)
	}
	if len(data) > maxScenario {
		return lifecycle.Usage(fmt.Errorf("scenario: is larger than %d MiB", maxScenario>>20))
	}
	answer, err := Decide(data)
	if err != nil {
		return lifecycle.Usage(err)
	}
	if _, err := env.Stdout.Write(answer); err != nil {
		return fmt.Errorf("writing the decision: %w", err)
	}
	return nil
}

// Decide makes the decision of a scenario and returns it as JSON, both in the format of decide.md.
// The error says, in one line, which part of the scenario could not be read.
func Decide(scenario []byte) ([]byte, error) {
	s, err := read(scenario)
	if err != nil {
		return nil, err
	}
	refused, err := s.resolve()
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return refused.encode()
	}
	var d routing.Decision
	routing.Decide(&s.input, &d)
	return render(&s.input, &d).encode()
}
