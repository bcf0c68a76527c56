package resource

import (
	"fmt"
	"regexp"
	"strings"
)

// The kinds of documents, in the order in which they are written.
const (
	KindProvider     = "provider"
	KindModel        = "model"
	KindOrganization = "organization"
	KindProject      = "project"
	KindAPIKey       = "api_key"
	KindProviderKey  = "provider_key"
)

var documentKinds = []string{KindProvider, KindModel, KindOrganization, KindProject, KindAPIKey, KindProviderKey}

var (
	providerID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	plainID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	modelID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)
)

// id reads the document's own id and makes it known.
func (o *fields) id(kind string, into *string) {
	c, ok := o.need("id", "every document has an id of its own")
	if !ok || !c.is(text) {
		return
	}
	*into = c.node.value
	switch kind {
	case KindProvider:
		if !providerID.MatchString(*into) {
			c.fail("%q is not an id for a provider: lower-case letters, digits, dots, hyphens and underscores, at most 64", *into)
			return
		}
	case KindModel:
		if !c.modelID() {
			return
		}
	default:
		if !plainID.MatchString(*into) {
			c.fail("%q is not an id: letters, digits, dots, hyphens and underscores, at most 128", *into)
			return
		}
	}
	c.define(kind, *into)
}

// modelID refuses what could not be asked for.
func (c cursor) modelID() bool {
	id := c.node.value
	switch {
	case !modelID.MatchString(id):
		c.fail("%q is not an id for a model: letters, digits and . _ : / @ + -, beginning with a letter or digit, at most 200", id)
	case id == "auto" || id == "smart" || strings.HasPrefix(id, "dynamic/"):
		c.fail("%q is reserved: choose another id", id)
	default:
		colon := strings.IndexByte(id, ':')
		if slash := strings.IndexByte(id, '/'); colon > 0 && (slash < 0 || colon < slash) {
			c.d.later = append(c.d.later, func() {
				if _, ok := c.d.defined[KindProvider+" "+id[:colon]]; ok {
					c.fail("%q can never be asked for: what begins with %q names the provider", id, id[:colon+1])
				}
			})
		}
		return true
	}
	return false
}

// define makes an id known and refuses the second of the same kind.
func (c cursor) define(kind, id string) {
	key := kind + " " + id
	if first, ok := c.d.defined[key]; ok {
		c.fail("%s %q is already defined at %s:%d: ids and aliases are unique", kind, id, first.file, first.node.at.line)
		return
	}
	c.d.defined[key] = c
	c.d.listed[kind] = append(c.d.listed[kind], id)
}

// refer checks, once all documents are read, that something is defined.
func (c cursor) refer(kind, id string) {
	c.d.later = append(c.d.later, func() {
		if _, ok := c.d.defined[kind+" "+id]; !ok {
			c.fail("there is no %s %q%s", strings.ReplaceAll(kind, "_", " "), id, c.d.suggest(kind, id))
			return
		}
		if canonical, ok := c.d.aliases[id]; ok && kind == KindModel {
			c.fail("%q is an alias: write %q", id, canonical)
		}
	})
}

func (d *decoder) suggest(kind, id string) string {
	if near := Nearest(id, d.listed[kind], 1); len(near) > 0 {
		return fmt.Sprintf(": did you mean %q?", near[0])
	}
	if n := len(d.listed[kind]); n > 0 && n <= 12 {
		return ": there are " + strings.Join(d.listed[kind], ", ")
	}
	return ": add it, or name one that is there"
}

// reference reads the id of another resource.
func (o *fields) reference(kind, name string, into *string) {
	c, ok := o.get(name)
	if !ok || !c.is(text) || c.node.value == "" {
		return
	}
	*into = c.node.value
	c.refer(kind, *into)
}

// references reads a list of ids of other resources.
func (o *fields) references(kind, name string, into *[]string) {
	o.each(name, func(c cursor) {
		if c.is(text) {
			c.once(into, c.node.value)
			c.refer(kind, c.node.value)
		}
	}, into)
}
