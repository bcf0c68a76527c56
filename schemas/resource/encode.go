package resource

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Encode writes a set that Parse returned as YAML that Parse reads back to the same set: documents by
// kind, fields in a fixed order, what is the default left out.
func Encode(set *Set) []byte {
	var w writer
	for i := range set.Providers {
		w.provider(&set.Providers[i])
	}
	for i := range set.Models {
		w.model(&set.Models[i])
	}
	for i := range set.Organizations {
		w.organization(&set.Organizations[i])
	}
	for i := range set.Projects {
		w.project(&set.Projects[i])
	}
	for i := range set.APIKeys {
		w.apiKey(&set.APIKeys[i])
	}
	for i := range set.ProviderKeys {
		w.providerKey(&set.ProviderKeys[i])
	}
	return w.Bytes()
}

// writer writes block style where a field is an object of its own and flow style inside.
type writer struct {
	bytes.Buffer
	indent string
	dash   bool // the next line begins a list item
}

func (w *writer) document(kind, id string) {
	if w.Len() > 0 {
		w.WriteString("---\n")
	}
	w.line("kind", kind)
	w.line("id", quote(id))
}

// line writes a field unless its value is empty.
func (w *writer) line(name, value string) {
	if value == "" {
		return
	}
	indent := w.indent
	if w.dash {
		indent, w.dash = indent[:len(indent)-2]+"- ", false
	}
	w.WriteString(indent + name + ": " + value + "\n")
}

// item runs write for one item of a block list.
func (w *writer) item(write func()) {
	outer := w.indent
	w.indent, w.dash = outer+"    ", true
	write()
	w.indent, w.dash = outer, false
}

func (w *writer) open(name string) { w.WriteString(w.indent + name + ":\n") }

func (w *writer) provider(p *Provider) {
	w.document(KindProvider, p.ID)
	w.line("name", quote(p.Name))
	w.line("protocol", p.Protocol)
	w.line("base_url", quote(p.BaseURL))
	if len(p.Credentials) > 0 {
		w.open("credentials")
		for _, c := range p.Credentials {
			var f flow
			f.add("id", quote(c.ID))
			f.add("secret", quote(c.Secret))
			f.add("region", quote(c.Region))
			f.add("models", quotes(c.Models))
			f.add("service_tiers", quotes(c.ServiceTiers))
			w.WriteString("  - " + f.String() + "\n")
		}
	}
	w.line("priority", optional(p.Priority))
	if p.HTTP != 1 {
		w.line("http", strconv.Itoa(p.HTTP))
	}
	w.line("timeouts", p.Timeouts.flow())
	var cooldown flow
	cooldown.add("base", wait(p.Cooldown.Base))
	cooldown.add("max", wait(p.Cooldown.Max))
	w.line("cooldown", cooldown.String())
	w.line("organization", quote(p.Organization))
	w.line("trace", yes(p.Trace))
	w.line("allow_private", yes(p.AllowPrivate))
	w.line("forward_headers", quotes(p.ForwardHeaders))
	if p.StreamUsage != nil {
		w.line("stream_usage", strconv.FormatBool(*p.StreamUsage))
	}
	w.line("endpoints", quotes(p.Endpoints))
}

func (w *writer) model(m *Model) {
	w.document(KindModel, m.ID)
	w.line("name", quote(m.Name))
	w.line("aliases", quotes(m.Aliases))
	w.line("family", quote(m.Family))
	if !slices.Equal(m.Output, []string{"text"}) {
		w.line("output", quotes(m.Output))
	}
	w.line("input", quotes(m.Input))
	w.line("reasoning_bound", yes(m.ReasoningBound))
	w.line("free", yes(m.Free))
	w.open("mappings")
	for i := range m.Mappings {
		w.item(func() { w.mapping(&m.Mappings[i]) })
	}
}

func (w *writer) mapping(m *Mapping) {
	w.line("provider", quote(m.Provider))
	w.line("upstream", quote(m.Upstream))
	w.line("price", m.Price.flow(nil))
	w.line("price_tiers", tiersFlow(m.PriceTiers))
	w.line("service_tiers", serviceTiersFlow(m.ServiceTiers))
	w.line("context", count(m.Context))
	w.line("max_output", count(m.MaxOutput))
	w.line("capabilities", quotes(m.Capabilities))
	w.line("reasoning_efforts", quotes(m.ReasoningEfforts))
	w.line("image_tokens", count(m.ImageTokens))
	w.line("priority", optional(m.Priority))
	if m.Status != StatusActive {
		w.line("status", m.Status)
	}
	if m.Stability != StabilityStable {
		w.line("stability", m.Stability)
	}
	w.line("timeouts", m.Timeouts.flow())
	if len(m.Regions) == 0 {
		return
	}
	w.open("regions")
	for _, r := range m.Regions {
		w.WriteString(w.indent + "  - " + r.flow(m) + "\n")
	}
}

// flow writes what is different from the mapping.
func (r *Region) flow(m *Mapping) string {
	var f flow
	f.add("id", quote(r.ID))
	if !r.Expires.IsZero() {
		layout := time.RFC3339
		if r.Expires.Equal(r.Expires.Truncate(24 * time.Hour)) {
			layout = time.DateOnly
		}
		f.add("expires", quote(r.Expires.Format(layout)))
	}
	if r.Upstream != m.Upstream {
		f.add("upstream", quote(r.Upstream))
	}
	f.add("price", r.Price.flow(&m.Price))
	if !reflect.DeepEqual(r.PriceTiers, m.PriceTiers) {
		f.add("price_tiers", tiersFlow(r.PriceTiers))
		if len(r.PriceTiers) == 0 {
			f.add("price_tiers", "[]")
		}
	}
	if r.Context != m.Context {
		f.add("context", strconv.FormatInt(r.Context, 10))
	}
	if r.MaxOutput != m.MaxOutput {
		f.add("max_output", strconv.FormatInt(r.MaxOutput, 10))
	}
	if r.Status != m.Status {
		f.add("status", r.Status)
	}
	if r.Stability != m.Stability {
		f.add("stability", r.Stability)
	}
	if !reflect.DeepEqual(r.Priority, m.Priority) {
		f.add("priority", optional(r.Priority))
	}
	f.add("service_tiers", serviceTiersFlow(r.ServiceTiers))
	if r.ServiceTiers != nil && len(r.ServiceTiers) == 0 {
		f.add("service_tiers", "[]")
	}
	f.add("capabilities", quotes(r.Capabilities))
	f.add("reasoning_efforts", quotes(r.ReasoningEfforts))
	f.add("image_tokens", count(r.ImageTokens))
	f.add("timeouts", r.Timeouts.flow())
	return f.String()
}

// flow writes the rates, or with a base those that are different from it.
func (p Price) flow(base *Price) string {
	var f flow
	if base == nil || base.Input != p.Input {
		f.add("input", p.Input.String())
	}
	if base == nil || base.Output != p.Output {
		f.add("output", p.Output.String())
	}
	own := p.optional()
	for i, rate := range own {
		if *rate.at == nil || base != nil && reflect.DeepEqual(*base.optional()[i].at, *rate.at) {
			continue
		}
		f.add(rate.name, (*rate.at).String())
	}
	return f.String()
}

func serviceTiersFlow(tiers []ServiceTier) string {
	out := make([]string, len(tiers))
	for i, tier := range tiers {
		var f flow
		f.add("id", quote(tier.ID))
		f.add("price", tier.Price.flow(nil))
		out[i] = f.String()
	}
	return listed(out)
}

func tiersFlow(tiers []PriceTier) string {
	out := make([]string, len(tiers))
	for i, tier := range tiers {
		var f flow
		f.add("above", strconv.FormatInt(tier.Above, 10))
		f.add("price", tier.Price.flow(nil))
		out[i] = f.String()
	}
	return listed(out)
}

func (t Timeouts) flow() string {
	var f flow
	f.add("connect", wait(t.Connect))
	f.add("first_byte", wait(t.FirstByte))
	f.add("first_output", wait(t.FirstOutput))
	f.add("idle", wait(t.Idle))
	f.add("plain", wait(t.Plain))
	f.add("stream", wait(t.Stream))
	return f.String()
}

func (w *writer) organization(o *Organization) {
	w.document(KindOrganization, o.ID)
	w.line("name", quote(o.Name))
	if o.Workload != "api" {
		w.line("workload", o.Workload)
	}
	discounts := make([]string, len(o.Discounts))
	for i, d := range o.Discounts {
		var f flow
		f.add("provider", quote(d.Provider))
		f.add("model", quote(d.Model))
		f.add("percent", float(d.Percent))
		discounts[i] = f.String()
	}
	w.line("discounts", listed(discounts))
}

func (w *writer) project(p *Project) {
	w.document(KindProject, p.ID)
	w.line("name", quote(p.Name))
	w.line("organization", quote(p.Organization))
	if p.Mode != ModePlatform {
		w.line("mode", p.Mode)
	}
	if p.ModelIDs != "provider" {
		w.line("model_ids", p.ModelIDs)
	}
	if p.DefaultStrategy != "auto" {
		w.line("default_strategy", p.DefaultStrategy)
	}
	w.routing(&p.Routing)
}

func (w *writer) apiKey(k *APIKey) {
	w.document(KindAPIKey, k.ID)
	w.line("project", quote(k.Project))
	w.line("hash", "sha256:"+k.Hash)
	w.line("revoked", yes(k.Revoked))
	w.line("models", quotes(k.Models))
}

func (w *writer) providerKey(k *ProviderKey) {
	w.document(KindProviderKey, k.ID)
	w.line("name", quote(k.Name))
	w.line("organization", quote(k.Organization))
	w.line("provider", quote(k.Provider))
	w.line("secret", quote(k.Secret))
	w.line("region", quote(k.Region))
	w.line("models", quotes(k.Models))
}

// flow is an object on one line.
type flow struct{ fields []string }

func (f *flow) add(name, value string) {
	if value != "" {
		f.fields = append(f.fields, name+": "+value)
	}
}

func (f *flow) String() string {
	if len(f.fields) == 0 {
		return ""
	}
	return "{" + strings.Join(f.fields, ", ") + "}"
}

func listed(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// plainWord is a text that YAML reads as itself without quotes, in every style.
var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*([ :][A-Za-z0-9_./][A-Za-z0-9_./-]*)*$`)

var reserved = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}

func quote(s string) string {
	if s == "" {
		return ""
	}
	if plainWord.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return s
	}
	b, _ := json.Marshal(s) // a text always encodes
	return string(b)
}

// quotes writes nothing for nil and [] for an empty list, which is not the same.
func quotes(list []string) string {
	if list == nil {
		return ""
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func optional(f *float64) string {
	if f == nil {
		return ""
	}
	return float(*f)
}

func float(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func yes(b bool) string {
	if !b {
		return ""
	}
	return "true"
}

func wait(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
