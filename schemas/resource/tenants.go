package resource

import (
	"regexp"
	"strings"
)

func (o *fields) organization() {
	org := Organization{Workload: "api"}
	o.id(KindOrganization, &org.ID)
	o.text("name", &org.Name)
	o.word("workload", &org.Workload, "api", "coding", "chat")
	if c, ok := o.get("discounts"); ok {
		c.items(func(c cursor) {
			var discount Discount
			c.object(func(o *fields) {
				o.reference(KindProvider, "provider", &discount.Provider)
				o.reference(KindModel, "model", &discount.Model)
				if _, ok := o.need("percent", "how much is taken off, from 0 to 100"); ok {
					o.float("percent", &discount.Percent, 0, 100)
				}
			})
			for _, other := range org.Discounts {
				if other.Provider == discount.Provider && other.Model == discount.Model {
					c.fail("there is a discount for the same provider and model already: keep one")
				}
			}
			org.Discounts = append(org.Discounts, discount)
		})
	}
	o.d.set.Organizations = append(o.d.set.Organizations, org)
}

func (o *fields) project() {
	p := Project{Mode: ModePlatform, ModelIDs: "provider", DefaultStrategy: "auto", Routing: DefaultRouting()}
	o.camel = true
	o.id(KindProject, &p.ID)
	o.text("name", &p.Name)
	if _, ok := o.need("organization", "the id of the organization it belongs to"); ok {
		o.reference(KindOrganization, "organization", &p.Organization)
	}
	o.word("mode", &p.Mode, ModePlatform, ModeBYOK, ModeHybrid, "credits", "api-keys")
	switch p.Mode {
	case "credits":
		p.Mode = ModePlatform
	case "api-keys":
		p.Mode = ModeBYOK
	}
	o.word("model_ids", &p.ModelIDs, "provider", "publisher")
	o.word("default_strategy", &p.DefaultStrategy, "auto", "price", "throughput", "latency")
	if c, ok := o.get("routing"); ok {
		p.Routing = c.routing()
	}
	o.d.set.Projects = append(o.d.set.Projects, p)
}

var hashForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (o *fields) apiKey() {
	var k APIKey
	o.id(KindAPIKey, &k.ID)
	if _, ok := o.need("project", "the id of the project it opens"); ok {
		o.reference(KindProject, "project", &k.Project)
	}
	if c, ok := o.need("hash", "sha256: and the lower-case hex SHA-256 of the token; `turnout key new` prints it"); ok && c.is(text) {
		// The value is not shown: it may be the token itself, written here by mistake.
		if hashForm.MatchString(c.node.value) {
			k.Hash = strings.TrimPrefix(c.node.value, "sha256:")
			c.define("token hash", k.Hash)
		} else {
			c.fail("is not sha256: and 64 lower-case hex digits; `turnout key new` prints it")
		}
	}
	o.bool("revoked", &k.Revoked)
	o.references(KindModel, "models", &k.Models)
	o.d.set.APIKeys = append(o.d.set.APIKeys, k)
}

func (o *fields) providerKey() {
	var k ProviderKey
	o.id(KindProviderKey, &k.ID)
	o.text("name", &k.Name)
	if _, ok := o.need("organization", "the id of the organization it belongs to"); ok {
		o.reference(KindOrganization, "organization", &k.Organization)
	}
	if c, ok := o.need("provider", "the id of the provider it is for"); ok {
		o.reference(KindProvider, "provider", &k.Provider)
		c.d.later = append(c.d.later, func() {
			for _, p := range c.d.set.Providers {
				if p.ID == k.Provider && p.Organization != "" && p.Organization != k.Organization {
					c.fail("provider %q belongs to another organization", k.Provider)
				}
			}
		})
	}
	o.secret(&k.Secret)
	o.text("region", &k.Region)
	o.references(KindModel, "models", &k.Models)
	o.d.set.ProviderKeys = append(o.d.set.ProviderKeys, k)
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secret reads a reference to a secret. What stands there is never shown: it may be the secret itself.
func (o *fields) secret(into *string) {
	c, ok := o.need("secret", "env:NAME or file:PATH")
	if !ok || !c.is(text) {
		return
	}
	scheme, rest, _ := strings.Cut(c.node.value, ":")
	switch {
	case scheme == "env" && envName.MatchString(rest), scheme == "file" && strings.TrimSpace(rest) != "":
		*into = c.node.value
	case scheme == "env":
		c.fail("env: is followed by the name of an environment variable, such as env:GROQ_API_KEY")
	case scheme == "file":
		c.fail("file: is followed by a path, such as file:/run/secrets/groq")
	case scheme == "sealed":
		c.fail("sealed secrets are not supported yet: use env:NAME or file:PATH")
	default:
		c.fail("is neither env:NAME nor file:PATH; a secret itself never stands in a resource file")
	}
}
