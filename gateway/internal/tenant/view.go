// Package tenant holds who may use the gateway and with what: keys, projects, organizations, the
// catalogue and the secrets of providers, as one value that is replaced whole when the files change.
package tenant

import (
	"crypto/sha256"
	"slices"

	"turnout/gateway/catalog"
	"turnout/internal/config"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// View is one consistent state of everything configured. It never changes; whoever holds it may use
// it for the whole of a request.
type View struct {
	Set          *resource.Set
	Catalog      *catalog.Catalog
	PriceVersion string             // content hash of all prices and discounts
	Problems     []Problem          // what is configured but cannot be used
	Profiles     []snapshot.Profile // distinct metrics histories of its projects, the default one first

	keys      map[[sha256.Size]byte]*Access
	projects  map[string]*Project
	platform  map[string][]Credential
	byok      map[ownerKey][]Credential
	endpoints map[string]string
}

// Problem is a part of the configuration that is left out, and why. The text holds no secret.
type Problem struct {
	Subject string // such as "provider groq credential main"
	Message string
}

// Access is what a token opens.
type Access struct {
	Key          *resource.APIKey
	Project      *Project
	Organization *resource.Organization
}

// Project is a project with what is derived from it once.
type Project struct {
	*resource.Project
	Organization  *resource.Organization
	ConfigVersion string // content hash of everything of the project that decides
	Refused       string // why it is not served; "" if it is
}

// Credential is a secret at a provider that can be used now.
type Credential struct {
	ID           string
	Name         string // the tenant's name for it; "" for the host's
	Provider     string
	Secret       config.Secret
	Region       string   // a lock
	Models       []string // empty: all
	ServiceTiers []string // empty: as the mapping says
	BYOK         bool     // the tenant's own
}

type ownerKey struct{ organization, provider string }

// Access finds what a token opens. Revoked keys and those of refused projects are found too: the
// caller says so to the client.
func (v *View) Access(token string) (*Access, bool) {
	access, ok := v.keys[sha256.Sum256([]byte(token))]
	return access, ok
}

// Project finds a project by id.
func (v *View) Project(id string) (*Project, bool) {
	p, ok := v.projects[id]
	return p, ok
}

// Platform returns the host's usable credentials at a provider, in file order. Not to be changed.
func (v *View) Platform(provider string) []Credential { return slices.Clip(v.platform[provider]) }

// BYOK returns an organization's own usable credentials at a provider, in file order. Not to be changed.
func (v *View) BYOK(organization, provider string) []Credential {
	return slices.Clip(v.byok[ownerKey{organization, provider}])
}

// BaseURL returns a provider's base URL with the environment's values filled in. A placeholder
// {region} is left for the adapter. "" if the provider is unknown or a value is missing.
func (v *View) BaseURL(provider string) string { return v.endpoints[provider] }
