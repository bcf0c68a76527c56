package llm

// Loss is a set of what the parts of a request may hold and a protocol has no word for.
type Loss uint8

// The kinds, each with the name under which it is told.
const (
	LosesThinking Loss = 1 << iota // thinking
	LosesErrors                    // is_error: that a tool call failed
	LosesCache                     // cache_control
	LosesDetail                    // detail: how closely an image is looked at
	LosesNames                     // filename
)

var losses = [...]struct {
	loss Loss
	name string
	in   func(p *Part) bool
}{
	{LosesThinking, "thinking", func(p *Part) bool { return p.Kind == PartThinking }},
	{LosesErrors, "is_error", func(p *Part) bool { return p.Failed }},
	{LosesCache, "cache_control", func(p *Part) bool { return p.Cache != nil }},
	{LosesDetail, "detail", func(p *Part) bool { return p.Detail != nil && string(p.Detail) != `"auto"` }},
	{LosesNames, "filename", func(p *Part) bool { return p.Kind == PartDocument && p.Name != nil }},
}

// Lost names what the request holds of what a protocol loses.
func (r *Request) Lost(by Loss) (names []string) {
	for _, l := range losses {
		if by&l.loss == 0 {
			continue
		}
		lost := holds(r.System, l.in)
		for i := 0; i < len(r.Messages) && !lost; i++ {
			lost = holds(r.Messages[i].Parts, l.in)
		}
		for i := 0; i < len(r.Tools) && !lost && l.loss == LosesCache; i++ {
			lost = r.Tools[i].Cache != nil
		}
		if lost {
			names = append(names, l.name)
		}
	}
	return names
}

func holds(parts []Part, in func(p *Part) bool) bool {
	for i := range parts {
		if p := &parts[i]; in(p) || holds(p.Parts, in) {
			return true
		}
	}
	return false
}
