package resource

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// apiVersion is the query that Azure's base URLs may end in.
var apiVersion = regexp.MustCompile(`\?api-version=[0-9A-Za-z.-]+$`)

func (o *fields) provider() {
	p := Provider{HTTP: 1}
	o.id(KindProvider, &p.ID)
	o.text("name", &p.Name)
	if _, ok := o.need("protocol", "what the provider speaks: openai, anthropic, gemini, azure, bedrock or vertex"); ok {
		o.word("protocol", &p.Protocol, ProtocolOpenAI, ProtocolAnthropic, ProtocolGemini, ProtocolAzure, ProtocolBedrock, ProtocolVertex)
	}
	o.bool("allow_private", &p.AllowPrivate)
	if c, ok := o.need("base_url", "such as https://api.groq.com/openai/v1"); ok && c.is(text) {
		if err := p.CheckBaseURL(c.node.value); err != nil {
			c.fail("%s", err)
		}
		p.BaseURL = strings.TrimRight(c.node.value, "/")
	}
	if c, ok := o.get("credentials"); ok {
		c.items(func(c cursor) { p.Credentials = append(p.Credentials, c.credential(p.Credentials)) })
	}
	o.optional("priority", &p.Priority, 0, math.Inf(1))
	o.smallInt("http", &p.HTTP, 1, 2)
	o.timeouts(&p.Timeouts)
	if c, ok := o.get("cooldown"); ok {
		c.object(func(o *fields) {
			o.duration("base", &p.Cooldown.Base)
			o.duration("max", &p.Cooldown.Max)
		})
		if p.Cooldown.Max > 0 && p.Cooldown.Base > p.Cooldown.Max {
			c.fail("base %s is above max %s", p.Cooldown.Base, p.Cooldown.Max)
		}
	}
	o.reference(KindOrganization, "organization", &p.Organization)
	o.bool("trace", &p.Trace)
	o.forwardHeaders(&p.ForwardHeaders)
	if _, ok := o.get("stream_usage"); ok {
		usage := true
		o.bool("stream_usage", &usage)
		p.StreamUsage = &usage
	}
	o.words("endpoints", &p.Endpoints, "chat", "responses", "embeddings", "messages")
	o.d.set.Providers = append(o.d.set.Providers, p)
}

func (c cursor) credential(before []Credential) (out Credential) {
	c.object(func(o *fields) {
		if c, ok := o.need("id", "a name for this key, such as main"); ok && c.is(text) {
			out.ID = c.node.value
			if !plainID.MatchString(out.ID) {
				c.fail("%q is not an id: letters, digits, dots, hyphens and underscores, at most 128", out.ID)
			}
			if slices.ContainsFunc(before, func(other Credential) bool { return other.ID == out.ID }) {
				c.fail("there is a credential %q already: ids are unique in a provider", out.ID)
			}
		}
		o.secret(&out.Secret)
		o.text("region", &out.Region)
		o.references(KindModel, "models", &out.Models)
		o.texts("service_tiers", &out.ServiceTiers)
	})
	return out
}

func (o *fields) timeouts(into *Timeouts) {
	c, ok := o.get("timeouts")
	if !ok {
		return
	}
	c.object(func(o *fields) {
		o.duration("connect", &into.Connect)
		o.duration("first_byte", &into.FirstByte)
		o.duration("first_output", &into.FirstOutput)
		o.duration("idle", &into.Idle)
		o.duration("plain", &into.Plain)
		o.duration("stream", &into.Stream)
	})
}

// withheld are headers that carry the client's own credentials or belong to its connection.
var withheld = []string{
	"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization", "host", "connection", "content-length",
	"content-type", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "accept-encoding",
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (o *fields) forwardHeaders(into *[]string) {
	o.each("forward_headers", func(c cursor) {
		if !c.is(text) {
			return
		}
		name := strings.ToLower(c.node.value)
		switch {
		case !headerName.MatchString(name):
			c.fail("%q is not the name of a header", c.node.value)
		case slices.Contains(withheld, name):
			c.fail("%q is never forwarded: it carries the client's credentials or belongs to its connection", c.node.value)
		default:
			c.once(into, name)
		}
	}, into)
}

var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}|\{region\}`)

// CheckBaseURL refuses what is no base URL of this provider.
func (p *Provider) CheckBaseURL(base string) error {
	if p.Protocol == ProtocolAzure {
		base = apiVersion.ReplaceAllString(base, "")
	}
	return CheckBaseURL(base, p.AllowPrivate)
}

// CheckBaseURL refuses what is no base URL of a provider. ${NAME} stands for an environment variable
// and {region} for the region of a mapping. Addresses that are written out are checked here; names
// when the connection is made, by CheckAddr.
func CheckBaseURL(base string, allowPrivate bool) error {
	const example = "such as https://api.groq.com/openai/v1"
	u, err := url.Parse(placeholder.ReplaceAllString(base, "x"))
	switch {
	case err != nil:
		return fmt.Errorf("is not a URL %s", example)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not a URL with https:// or http://, %s", base, example)
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host, %s", base, example)
	case u.User != nil:
		return errors.New("holds a user or password: put secrets into credentials")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("ends in a query or fragment: leave it out, and put secrets into credentials")
	}
	if err := CheckHost(u.Hostname(), allowPrivate); err != nil {
		return fmt.Errorf("%q %w", base, err)
	}
	return nil
}
