package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"turnout/gateway/catalog"
	"turnout/internal/config"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// maxSecret bounds a secret file, in bytes. A service account's key is the longest there is.
const maxSecret = 64 << 10

// build derives everything from a checked set. lookup gives environment variables; before are the
// profiles of the view that this one replaces. What cannot be resolved is left out and stands in
// Problems.
func build(set *resource.Set, lookup func(string) (string, bool), before []snapshot.Profile) *View {
	b := builder{lookup: lookup, view: &View{
		Set:          set,
		Catalog:      catalog.Build(set),
		PriceVersion: set.PriceVersion(),
		keys:         make(map[[sha256.Size]byte]*Access, len(set.APIKeys)),
		projects:     make(map[string]*Project, len(set.Projects)),
		platform:     map[string][]Credential{},
		byok:         map[ownerKey][]Credential{},
		endpoints:    make(map[string]string, len(set.Providers)),
	}}
	b.access(before)
	b.credentials()
	return b.view
}

type builder struct {
	view   *View
	lookup func(string) (string, bool)
}

func (b *builder) problem(err error, subject string, args ...any) {
	b.view.Problems = append(b.view.Problems, Problem{Subject: fmt.Sprintf(subject, args...), Message: err.Error()})
}

func (b *builder) access(before []snapshot.Profile) {
	set := b.view.Set
	organizations := make(map[string]*resource.Organization, len(set.Organizations))
	for i := range set.Organizations {
		organizations[set.Organizations[i].ID] = &set.Organizations[i]
	}
	profiles, refused := Profiles(set, before)
	b.view.Profiles = profiles
	for i := range set.Projects {
		p := &set.Projects[i]
		b.view.projects[p.ID] = &Project{Project: p, Organization: organizations[p.Organization], ConfigVersion: p.ConfigVersion(), Refused: refused[p.ID]}
		if why := refused[p.ID]; why != "" {
			b.problem(errors.New(why), "project %s routing.history", p.ID)
		}
	}
	for i := range set.APIKeys {
		key := &set.APIKeys[i]
		var hash [sha256.Size]byte
		if n, err := hex.Decode(hash[:], []byte(key.Hash)); err != nil || n != len(hash) {
			b.problem(errors.New("its hash is not a SHA-256"), "api_key %s", key.ID)
			continue
		}
		project := b.view.projects[key.Project]
		b.view.keys[hash] = &Access{Key: key, Project: project, Organization: project.Organization}
	}
}

func (b *builder) credentials() {
	set := b.view.Set
	for i := range set.Providers {
		p := &set.Providers[i]
		base, err := b.baseURL(p)
		if err != nil {
			b.problem(err, "provider %s base_url", p.ID)
			continue
		}
		b.view.endpoints[p.ID] = base
		for _, c := range p.Credentials {
			secret, err := b.secret(c.Secret)
			if err != nil {
				b.problem(err, "provider %s credential %s", p.ID, c.ID)
				continue
			}
			b.view.platform[p.ID] = append(b.view.platform[p.ID], Credential{
				ID: c.ID, Provider: p.ID, Secret: secret, Region: c.Region, Models: c.Models, ServiceTiers: c.ServiceTiers,
			})
		}
	}
	for _, k := range set.ProviderKeys {
		if b.view.endpoints[k.Provider] == "" {
			b.problem(fmt.Errorf("the provider %s cannot be reached: see its base_url", k.Provider), "provider_key %s", k.ID)
			continue
		}
		secret, err := b.secret(k.Secret)
		if err != nil {
			b.problem(err, "provider_key %s", k.ID)
			continue
		}
		owner := ownerKey{k.Organization, k.Provider}
		b.view.byok[owner] = append(b.view.byok[owner], Credential{
			ID: k.ID, Name: k.Name, Provider: k.Provider, Secret: secret, Region: k.Region, Models: k.Models, BYOK: true,
		})
	}
}

// secret resolves a reference. The error names the reference, which is no secret.
func (b *builder) secret(reference string) (config.Secret, error) {
	scheme, rest, _ := strings.Cut(reference, ":")
	if scheme == "env" {
		value, ok := b.lookup(rest)
		if !ok || strings.TrimSpace(value) == "" {
			return "", fmt.Errorf("the environment variable %s is not set", rest)
		}
		return config.Secret(strings.TrimSpace(value)), nil
	}
	value, err := readSecret(rest)
	if err != nil {
		return "", err
	}
	if value == "" {
		return "", fmt.Errorf("the file %s is empty", rest)
	}
	return config.Secret(value), nil
}

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("the file %s is longer than %d bytes: that is no secret", path, maxSecret)
	}
	return strings.TrimSpace(string(data)), nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// baseURL fills the environment's values in and looks at the outcome again, since a value may be an
// address that a provider must not have.
func (b *builder) baseURL(p *resource.Provider) (string, error) {
	var missing []string
	base := variable.ReplaceAllStringFunc(p.BaseURL, func(reference string) string {
		name := reference[2 : len(reference)-1]
		value, ok := b.lookup(name)
		if !ok || value == "" {
			missing = append(missing, name)
		}
		return value
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("the environment variable %s is not set", strings.Join(missing, ", "))
	}
	if err := p.CheckBaseURL(base); err != nil {
		return "", err
	}
	return strings.TrimRight(base, "/"), nil
}

// secretFiles lists the files that a set's secrets stand in, so that a changed secret is noticed.
func secretFiles(set *resource.Set) []string {
	var out []string
	add := func(reference string) {
		if path, ok := strings.CutPrefix(reference, "file:"); ok {
			out = append(out, path)
		}
	}
	for i := range set.Providers {
		for _, c := range set.Providers[i].Credentials {
			add(c.Secret)
		}
	}
	for i := range set.ProviderKeys {
		add(set.ProviderKeys[i].Secret)
	}
	return out
}
