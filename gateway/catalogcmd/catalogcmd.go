// Package catalogcmd is `turnout catalog` and `turnout key`: looking at resources, checking them,
// making them from models.dev, and making keys.
package catalogcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"turnout/gateway/catalogcmd/modelsdev"
	"turnout/gateway/internal/tenant"
	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

const usage = `turnout catalog: the models and who serves them

  turnout catalog check [PATHS]                          check resources; every mistake with file, line and field
  turnout catalog list [PATHS]                           print models, prices and providers
  turnout catalog import models.dev FILE [--out FOLDER]  turn models.dev's api.json into resources

PATHS are files and folders (*.yaml, *.yml, *.json). Without them: the catalogue this program was built with.
`

// Main runs `turnout catalog`. builtIn is the catalogue that stands in for missing paths.
func Main(_ context.Context, env lifecycle.Env, builtIn []resource.Source) error {
	if len(env.Args) == 0 {
		fmt.Fprint(env.Stderr, usage)
		return lifecycle.Usage(errors.New("say what to do: check, list or import"))
	}
	command, args := env.Args[0], env.Args[1:]
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		command = "help"
	}
	switch command {
	case "check":
		return check(env, args, builtIn)
	case "list":
		return list(env, args, builtIn)
	case "import":
		return importFrom(env, args)
	case "help", "-h", "--help":
		fmt.Fprint(env.Stdout, usage)
		return nil
	}
	hint := "check, list or import"
	if near := resource.Nearest(command, []string{"check", "list", "import"}, 1); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return lifecycle.Usage(fmt.Errorf("unknown command %q: %s", command, hint))
}

// read parses paths, or without any what is built in. A mistake is the caller's: exit code 2.
func read(paths []string, builtIn []resource.Source) (*resource.Set, error) {
	for _, path := range paths {
		if strings.HasPrefix(path, "-") {
			return nil, lifecycle.Usage(fmt.Errorf("unknown flag %s: only files and folders belong here", path))
		}
	}
	parse := func() (*resource.Set, error) { return resource.Parse(builtIn...) }
	if len(paths) > 0 {
		parse = func() (*resource.Set, error) { return resource.ParseFiles(paths) }
	}
	set, err := parse()
	if err != nil {
		var mistakes resource.Errors
		if errors.As(err, &mistakes) {
			return nil, lifecycle.Usage(fmt.Errorf("%w\n%s", err, counted(len(mistakes), "mistake")))
		}
		return nil, lifecycle.Usage(err)
	}
	return set, nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func check(env lifecycle.Env, paths []string, builtIn []resource.Source) error {
	set, err := read(paths, builtIn)
	if err != nil {
		return err
	}
	if _, refused := tenant.Profiles(set, nil); len(refused) > 0 {
		var mistakes []error
		for _, id := range slices.Sorted(maps.Keys(refused)) {
			mistakes = append(mistakes, fmt.Errorf("project %s: routing.history: %s", id, refused[id]))
		}
		return lifecycle.Usage(errors.Join(mistakes...))
	}
	mappings := 0
	for i := range set.Models {
		mappings += len(set.Models[i].Mappings)
	}
	fmt.Fprintf(env.Stdout, "fine: %s, %s, %s, %s, %s, %s, %s\nprice version %s\n",
		counted(len(set.Providers), "provider"), counted(len(set.Models), "model"), counted(mappings, "mapping"),
		counted(len(set.Organizations), "organization"), counted(len(set.Projects), "project"),
		counted(len(set.APIKeys), "API key"), counted(len(set.ProviderKeys), "provider key"), set.PriceVersion())
	return nil
}

func list(env lifecycle.Env, paths []string, builtIn []resource.Source) error {
	set, err := read(paths, builtIn)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tPROVIDER\tREGION\tINPUT\tCACHED\tOUTPUT\tCONTEXT\tSTATUS")
	for i := range set.Models {
		m := &set.Models[i]
		for j := range m.Mappings {
			mapping := &m.Mappings[j]
			line := func(region string, p resource.Price, context int64, status string) {
				cached := "-"
				if p.CachedInput != nil {
					cached = p.CachedInput.String()
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", m.ID, mapping.Provider, region, p.Input, cached, p.Output, context, status)
			}
			if len(mapping.Regions) == 0 {
				line("-", mapping.Price, mapping.Context, mapping.Status)
			}
			for _, r := range mapping.Regions {
				line(r.ID, r.Price, r.Context, r.Status)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the catalogue: %w", err)
	}
	return nil
}

func importFrom(env lifecycle.Env, args []string) error {
	flags := flag.NewFlagSet("turnout catalog import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	out := flags.String("out", "", "folder to write to, one file for each maker; without it everything goes to the standard output")
	words, err := parse(flags, args)
	if err != nil {
		return lifecycle.Usage(fmt.Errorf("import: %w", err))
	}
	if len(words) != 2 || words[0] != "models.dev" {
		return lifecycle.Usage(errors.New("say: turnout catalog import models.dev FILE [--out FOLDER]: FILE is models.dev's api.json"))
	}
	data, err := os.ReadFile(words[1])
	if err != nil {
		return lifecycle.Usage(fmt.Errorf("reading models.dev: %w", err))
	}
	set, report, err := modelsdev.Import(data)
	if err != nil {
		return lifecycle.Usage(err)
	}
	files := split(set)
	var sources []resource.Source
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sources = append(sources, resource.Source{Name: name, Data: append([]byte(header), resource.Encode(files[name])...)})
	}
	if _, err := resource.Parse(sources...); err != nil {
		return fmt.Errorf("the import does not make a valid catalogue:\n%w", err)
	}
	if *out == "" {
		_, err = env.Stdout.Write(resource.Encode(set))
	} else {
		err = writeAll(*out, sources)
	}
	if err != nil {
		return fmt.Errorf("writing the catalogue: %w", err)
	}
	printReport(env.Stderr, report)
	return nil
}

// parse allows flags behind words, as people write them.
func parse(flags *flag.FlagSet, args []string) ([]string, error) {
	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return words, nil
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

const header = "# Made by `turnout catalog import models.dev`. Figures from models.dev (MIT).\n"

// split sorts a set into files: the providers, and the models of each maker.
func split(set *resource.Set) map[string]*resource.Set {
	files := map[string]*resource.Set{"providers.yaml": {Providers: set.Providers}}
	for _, m := range set.Models {
		name := modelsdev.File(m.ID) + ".yaml"
		if files[name] == nil {
			files[name] = &resource.Set{}
		}
		files[name].Models = append(files[name].Models, m)
	}
	return files
}

func writeAll(folder string, sources []resource.Source) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, source := range sources {
		if err := os.WriteFile(filepath.Join(folder, source.Name), source.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func printReport(w io.Writer, report *modelsdev.Report) {
	const examples = 5
	fmt.Fprintf(w, "taken over: %s, %s, %s\n", counted(report.Providers, "provider"), counted(report.Models, "model"), counted(report.Mappings, "mapping"))
	section := func(title string, by map[string][]string) {
		if len(by) == 0 {
			return
		}
		total := 0
		for _, names := range by {
			total += len(names)
		}
		fmt.Fprintf(w, "%s: %d\n", title, total)
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			names := by[reason]
			more := ""
			if len(names) > examples {
				more = ", ..."
			}
			fmt.Fprintf(w, "  %4d  %s (%s%s)\n", len(names), reason, strings.Join(names[:min(examples, len(names))], ", "), more)
		}
	}
	section("left out", report.LeftOut)
	section("taken over with a remark", report.Noted)
}
