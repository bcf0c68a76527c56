package catalogcmd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"

	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

const keyUsage = `turnout key: keys for clients

  turnout key new --project PROJECT [--id ID]  make a token, shown this once (standard error), and the
                                               document that stands for it (standard output)
`

// KeyMain runs `turnout key`.
func KeyMain(_ context.Context, env lifecycle.Env) error {
	if len(env.Args) == 0 || env.Args[0] != "new" {
		if len(env.Args) > 0 && (env.Args[0] == "help" || env.Args[0] == "-h" || env.Args[0] == "--help") {
			fmt.Fprint(env.Stdout, keyUsage)
			return nil
		}
		fmt.Fprint(env.Stderr, keyUsage)
		return lifecycle.Usage(errors.New("say what to do: new"))
	}
	flags := flag.NewFlagSet("turnout key new", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	project := flags.String("project", "", "id of the project that the key opens")
	id := flags.String("id", "", "id of the key; without it one is made up")
	words, err := parse(flags, env.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(env.Stdout, keyUsage)
		return nil
	}
	if err != nil {
		return lifecycle.Usage(fmt.Errorf("new: %w", err))
	}
	if len(words) > 0 {
		return lifecycle.Usage(fmt.Errorf("new: %q is too much: there are only flags", words[0]))
	}
	if *project == "" {
		return lifecycle.Usage(errors.New("new: --project is missing: the id of the project that the key opens"))
	}
	token := NewToken()
	if *id == "" {
		// Part of the hash, not of the token: an id stands in files and logs.
		*id = *project + "-" + Hash(token)[:8]
	}
	document := resource.Encode(&resource.Set{APIKeys: []resource.APIKey{{ID: *id, Project: *project, Hash: Hash(token)}}})
	if err := checkKey(document, *project); err != nil {
		return lifecycle.Usage(fmt.Errorf("new: %w", err))
	}
	// Apart, so that a file which takes the document does not take the token.
	fmt.Fprintf(env.Stderr, "token, shown this once: %s\n", token)
	if _, err := env.Stdout.Write(document); err != nil {
		return fmt.Errorf("printing the key: %w", err)
	}
	return nil
}

// checkKey refuses ids that the document could not be read back with, each under its flag.
func checkKey(document []byte, project string) error {
	around := resource.Encode(&resource.Set{
		Organizations: []resource.Organization{{ID: "o", Workload: "api"}},
		Projects:      []resource.Project{{ID: project, Organization: "o", Mode: resource.ModePlatform, ModelIDs: "provider", DefaultStrategy: "auto", Routing: resource.DefaultRouting()}},
	})
	projectOnly := resource.Source{Name: "--project", Data: around}
	if err := refused(projectOnly); err != nil {
		return err
	}
	return refused(projectOnly, resource.Source{Name: "--id", Data: document})
}

// refused is what is wrong with sources, each mistake under its source's name.
func refused(sources ...resource.Source) error {
	_, err := resource.Parse(sources...)
	var mistakes resource.Errors
	if !errors.As(err, &mistakes) {
		return err
	}
	said := make([]error, len(mistakes))
	for i, m := range mistakes {
		said[i] = fmt.Errorf("%s: %s", m.File, m.Message)
	}
	return errors.Join(said...)
}

// NewToken makes a token for a client: to- and 160 random bits.
func NewToken() string {
	var secret [20]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "to-" + hex.EncodeToString(secret[:])
}

// Hash is what of a token stands in an api_key: lower-case hex, without prefix.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
