// Package catalog holds the catalogue that Turnout comes with: providers and models in the resource
// format, made by `turnout catalog import models.dev` and looked over by hand.
package catalog

import (
	"embed"
	"io/fs"

	"turnout/schemas/resource"
)

//go:embed *.yaml
var files embed.FS

// Files returns the catalogue's files in order of name.
func Files() []resource.Source {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // embedded: it is there or nothing is built
	}
	out := make([]resource.Source, 0, len(entries))
	for _, entry := range entries {
		data, err := files.ReadFile(entry.Name())
		if err != nil {
			panic(err)
		}
		out = append(out, resource.Source{Name: entry.Name(), Data: data})
	}
	return out
}
