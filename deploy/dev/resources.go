package dev

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"turnout/deploy/catalog"
	"turnout/deploy/sim"
	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

// resources writes what the gateway serves: the simulated providers with a demo project, and the real
// providers whose usual environment keys are set. Resources given by the user replace all of it.
func (s *Stack) resources(env lifecycle.Env, o Options) error {
	key, err := token(filepath.Join(s.cfg.Data, "key"), func(b []byte) error {
		_, err := rand.Read(b)
		return err
	})
	if err != nil {
		return err
	}
	s.Key = key
	if len(s.cfg.Resources) > 0 {
		s.Key = "" // theirs are in their files, hashed
		return nil
	}
	dir := filepath.Join(s.cfg.Data, "resources")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("writing resources: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing resources: %w", err)
	}
	secret, err := sim.WriteKeys(filepath.Join(s.cfg.Data, "keys"))
	if err != nil {
		return err
	}
	only := sim.Project{ID: project}
	if o.Only != nil {
		only = *o.Only
	}
	only.KeyHash = hashed(key)
	simulated, err := sim.Resources(sim.ResourceOptions{BaseURL: "http://" + s.cfg.Sim.Listen, Secret: secret, Projects: []sim.Project{only}})
	if err != nil {
		return err
	}
	joined, err := realProviders(env)
	if err != nil {
		return err
	}
	for _, p := range joined.Providers {
		s.Joined = append(s.Joined, p.ID)
	}
	s.cfg.Resources = []string{dir}
	err = os.WriteFile(filepath.Join(dir, "simulated.yaml"), simulated, 0o600)
	if len(joined.Providers) > 0 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "real.yaml"), resource.Encode(joined), 0o600))
	}
	if err != nil {
		return fmt.Errorf("writing resources: %w", err)
	}
	return nil
}

// realProviders returns those OpenAI-compatible providers of the catalogue whose key stands in the
// environment, and the models they serve. None of these models is one of the simulators'.
func realProviders(env lifecycle.Env) (*resource.Set, error) {
	all, err := resource.Parse(catalog.Files()...)
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	set := &resource.Set{}
	for _, p := range all.Providers {
		if p.Protocol == resource.ProtocolOpenAI && hasKey(p, env) {
			set.Providers = append(set.Providers, p)
		}
	}
	for _, m := range all.Models {
		m.Mappings = slices.DeleteFunc(slices.Clone(m.Mappings), func(mapping resource.Mapping) bool {
			return !slices.ContainsFunc(set.Providers, func(p resource.Provider) bool { return p.ID == mapping.Provider })
		})
		if len(m.Mappings) > 0 && !strings.HasPrefix(m.ID, "sim-") {
			set.Models = append(set.Models, m)
		}
	}
	return set, nil
}

// hasKey tells whether one of a provider's credentials is an environment variable that is set.
func hasKey(p resource.Provider, env lifecycle.Env) bool {
	return slices.ContainsFunc(p.Credentials, func(c resource.Credential) bool {
		name, ok := strings.CutPrefix(c.Secret, "env:")
		if !ok {
			return false
		}
		value, _ := env.Lookup(name)
		return value != ""
	})
}
