package decide

import (
	"encoding/json"

	"turnout/gateway/routing"
)

// The output of a decision, as decide.md has it.
type output struct {
	Selected   *where     `json:"selected"`
	Reason     string     `json:"reason"`
	Scores     []score    `json:"scores"`
	Excluded   []excluded `json:"excluded"`
	Propensity float64    `json:"propensity"`
	Stripped   []string   `json:"stripped_parameters"`
	State      state      `json:"state"`
	Error      *failure   `json:"error"`
}

type where struct {
	Provider string `json:"provider"`
	Region   string `json:"region"`
}

// score shows a metric that is unknown as null; it was scored by the configured default.
type score struct {
	where
	Score         float64       `json:"score"`
	Price         float64       `json:"price"`
	Uptime        *float64      `json:"uptime"`
	Throughput    *float64      `json:"throughput"`
	Latency       *float64      `json:"latency"`
	Priority      float64       `json:"priority"`
	Contributions contributions `json:"contributions"`
	LostToRegion  *string       `json:"lost_to_region,omitempty"`
}

type contributions struct {
	Price         float64 `json:"price"`
	Uptime        float64 `json:"uptime"`
	Throughput    float64 `json:"throughput"`
	Latency       float64 `json:"latency"`
	Cache         float64 `json:"cache"`
	Priority      float64 `json:"priority"`
	UptimePenalty float64 `json:"uptime_penalty"`
}

type excluded struct {
	where
	Code string `json:"code"`
}

type state struct {
	Pin       *stored `json:"pin,omitempty"`
	Preferred *stored `json:"preferred,omitempty"`
}

type stored struct {
	where
	TTLSeconds int64 `json:"ttl_seconds"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refusal is the output of a request that was refused before anything was weighed.
func refusal(code, message string) *output {
	return &output{
		Scores: []score{}, Excluded: []excluded{}, Propensity: 1, Stripped: []string{},
		Error: &failure{Code: code, Message: message},
	}
}

func render(in *routing.Input, d *routing.Decision) *output {
	out := refusal(d.Error.Code, d.Error.Message)
	at := func(i int) where { return where{in.Candidates[i].Provider, in.Candidates[i].Region} }
	for i := range d.Scores {
		s := &d.Scores[i]
		one := score{
			where: at(s.Candidate), Score: s.Score, Price: s.Price, Priority: s.Priority,
			Contributions: contributions(s.Contributions),
			Uptime:        shown(s, routing.KnownUptime, s.Uptime),
			Throughput:    shown(s, routing.KnownThroughput, s.Throughput),
			Latency:       shown(s, routing.KnownLatency, s.Latency),
		}
		if s.LostTo >= 0 {
			one.LostToRegion = &in.Candidates[s.LostTo].Region
		}
		out.Scores = append(out.Scores, one)
	}
	for _, x := range d.Excluded {
		out.Excluded = append(out.Excluded, excluded{at(x.Candidate), x.Code.String()})
	}
	if d.Selected < 0 {
		return out
	}
	selected := at(d.Selected)
	out.Selected, out.Reason, out.Propensity, out.Error = &selected, string(d.Reason), d.Propensity, nil
	if d.ToolChoiceStripped {
		out.Stripped = append(out.Stripped, "tool_choice")
	}
	switch d.Update {
	case routing.UpdatePin:
		out.State.Pin = &stored{selected, d.TTLSeconds}
	case routing.UpdatePreferred:
		out.State.Preferred = &stored{selected, d.TTLSeconds}
	case routing.UpdateNothing:
	}
	return out
}

func shown(s *routing.Scored, which routing.Known, value float64) *float64 {
	if s.Known&which == 0 {
		return nil
	}
	return &value
}

func (o *output) encode() ([]byte, error) {
	data, err := json.MarshalIndent(o, "", "  ")
	return append(data, '\n'), err
}
