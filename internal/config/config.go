// Package config fills a component's settings from four places, later ones winning: the defaults
// in the struct, a YAML file, the environment and flags. A setting has one name everywhere: the key
// kafka.brokers is the flag --kafka.brokers and the variable TURNOUT_KAFKA_BROKERS.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
	yamlv3 "go.yaml.in/yaml/v3"

	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

// ErrHelp says that help was asked for and has been printed.
var ErrHelp = pflag.ErrHelp

// Prefix of every environment variable that is a setting.
const Prefix = "TURNOUT_"

// Secret is a setting that is never printed.
type Secret string

const redacted = "[redacted]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from printing the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps encoders from printing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// Result is what Load found beside the settings.
type Result struct {
	Args      []string // what is left of the command line
	CheckOnly bool     // --check-config: say that all is well and exit
}

// Load fills the struct that cfg points to. Its leaves carry the tags `koanf:"name"` and
// `help:"..."`; its values are the defaults. Where cfg has a method Validate() error, that is asked
// too. Every mistake is in the error, each with its key and where it was said. An error for which
// errors.Is(err, pflag.ErrHelp) holds means that help was asked for and printed. Words beside the flags
// are refused, unless cfg has a method Words() string that names them for the help.
//
// known are keys of other components: they may stand in the file and the environment, which all
// components share, but not among the flags.
func Load(command string, cfg any, env lifecycle.Env, known []string) (Result, error) {
	own := Leaves(cfg)
	var mistakes []error
	words := ""
	if w, ok := cfg.(interface{ Words() string }); ok {
		words = w.Words()
	}

	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "-", "_"))
	})
	file := flags.String("config", "", "settings file (YAML)")
	check := flags.Bool("check_config", false, "check the settings and exit")
	for _, leaf := range own {
		if leaf.Kind == reflect.Bool {
			// A text, so that a value that is neither true nor false ends no parsing; decode names it.
			flags.String(leaf.Key, "", leaf.Help)
			flags.Lookup(leaf.Key).NoOptDefVal = "true"
			continue
		}
		flags.String(leaf.Key, "", leaf.Help)
	}
	args, unknown := splitUnknown(flags, env.Args)
	for _, name := range unknown {
		mistakes = append(mistakes, fmt.Errorf("unknown flag: --%s%s", name, closestFlag(command, name, flags)))
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(env.Stdout, usage(command, words, own))
			return Result{}, err
		}
		mistakes = append(mistakes, fmt.Errorf("%w (turnout %s --help lists the flags)", err, command))
	}
	if words == "" {
		for _, word := range flags.Args() {
			mistakes = append(mistakes, fmt.Errorf("unexpected argument %q: turnout %s takes flags only", word, command))
		}
	}
	if *file == "" {
		*file, _ = env.Lookup(Prefix + "CONFIG")
	}

	k := koanf.New(".")
	origin := map[string]string{}
	load := func(values map[string]any, where func(key string) string) {
		if err := k.Load(confmap.Provider(values, "."), nil); err != nil {
			mistakes = append(mistakes, err)
		}
		for key := range values {
			origin[key] = where(key)
		}
	}

	if *file != "" {
		values, err := readFile(*file)
		if err != nil {
			// Without the file, what it says would be named as missing.
			return Result{}, lifecycle.Usage(errors.Join(append(mistakes, err)...))
		}
		keys := make([]string, 0, len(values))
		for key := range values {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if isKnown(key, own, known) {
				continue
			}
			mistakes = append(mistakes, fmt.Errorf("%s: unknown setting %q%s", *file, key, closest(command, key, own, known)))
			delete(values, key)
		}
		load(keepOwn(values, own), func(string) string { return *file })
	}

	values := map[string]any{}
	for _, kv := range env.Environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !strings.HasPrefix(name, Prefix) || name == Prefix+"CONFIG" {
			continue
		}
		if key, ok := keyOf(name, own); ok {
			values[key] = value
			continue
		}
		if !slices.ContainsFunc(known, func(key string) bool { return Variable(key) == name }) {
			mistakes = append(mistakes, fmt.Errorf("environment: unknown setting %s%s", name, closestVariable(command, name, own, known)))
		}
	}
	load(values, Variable)

	values = map[string]any{}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "check_config" {
			values[f.Name] = f.Value.String()
		}
	})
	load(values, func(key string) string { return "--" + key })

	mistakes = append(mistakes, decode(k, cfg, origin)...)
	if v, ok := cfg.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if len(mistakes) > 0 {
		return Result{}, lifecycle.Usage(fmt.Errorf("settings:\n%w", errors.Join(mistakes...)))
	}
	return Result{Args: flags.Args(), CheckOnly: *check}, nil
}

// decode writes the merged values into cfg, leaf by leaf, so that each mistake names its own key.
func decode(k *koanf.Koanf, cfg any, origin map[string]string) []error {
	var mistakes []error
	for _, leaf := range Leaves(cfg) {
		if !k.Exists(leaf.Key) {
			continue
		}
		decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result:           leaf.value.Addr().Interface(),
			WeaklyTypedInput: true,
			DecodeHook: mapstructure.ComposeDecodeHookFunc(
				mapstructure.StringToTimeDurationHookFunc(),
				listOfText,
			),
		})
		if err == nil && !fits(leaf, k.Get(leaf.Key)) {
			err = errors.New("it does not fit")
		}
		if err == nil {
			err = decoder.Decode(k.Get(leaf.Key))
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %s is not %s (from %s)", leaf.Key, shown(leaf, k.Get(leaf.Key)), wanted(leaf), origin[leaf.Key]))
		}
	}
	return mistakes
}

// listOfText splits a text at its commas where a list belongs; spaces around them mean nothing.
func listOfText(from, to reflect.Type, value any) (any, error) {
	if from.Kind() != reflect.String || to.Kind() != reflect.Slice {
		return value, nil
	}
	text := value.(string)
	if strings.TrimSpace(text) == "" {
		return []string{}, nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list, nil
}

// fits says whether a value from a YAML file is of the setting's kind; decoding would bend it until it is:
// 1.5 to 1, true to 1, 25 to 25 ns.
func fits(leaf Leaf, value any) bool {
	whole := leaf.Kind >= reflect.Int && leaf.Kind <= reflect.Uint64
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Bool:
		return leaf.Kind == reflect.Bool
	case reflect.Float32, reflect.Float64:
		if whole && v.Float() != math.Trunc(v.Float()) {
			return false
		}
	case reflect.String, reflect.Invalid: // a text is read; nothing leaves the default
		return true
	}
	switch {
	case leaf.value.Type() == reflect.TypeFor[time.Duration]():
		return fmt.Sprint(value) == "0"
	case leaf.Kind == reflect.Bool:
		return false
	}
	return true
}

func shown(leaf Leaf, value any) string {
	if leaf.value.Type() == reflect.TypeFor[Secret]() {
		return redacted
	}
	return fmt.Sprintf("%q", fmt.Sprint(value))
}

func wanted(leaf Leaf) string {
	switch {
	case leaf.value.Type() == reflect.TypeFor[time.Duration]():
		return `a duration such as "30s"`
	case leaf.Kind == reflect.Bool:
		return "true or false"
	case leaf.Kind >= reflect.Int && leaf.Kind <= reflect.Uint64:
		return "a whole number"
	case leaf.Kind == reflect.Float64:
		return "a number"
	case leaf.Kind == reflect.Slice:
		return "a list"
	}
	return "a text"
}

func readFile(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading settings: %w", err)
	}
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(data), yaml.Parser()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := oneDocument(data); err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return k.All(), nil
}

// oneDocument refuses a second document, which koanf's parser drops without a word. The error begins
// with the line.
func oneDocument(data []byte) error {
	documents := yamlv3.NewDecoder(bytes.NewReader(data))
	for first := true; ; first = false {
		var doc yamlv3.Node
		err := documents.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf(" %w", err)
		}
		if body := doc.Content[0]; !first && body.Tag != "!!null" {
			return fmt.Errorf("%d: a second YAML document: settings are one, put these lines into the first and leave --- out", body.Line)
		}
	}
}

// Leaf is one setting of a struct.
type Leaf struct {
	Key, Help string
	Kind      reflect.Kind
	value     reflect.Value
}

// shown is the value as people write it; empty for nothing.
func (l Leaf) shown() string {
	if l.value.IsZero() {
		return ""
	}
	switch v := l.value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		text := v.String()
		for _, rest := range []string{"0s", "0m"} {
			if short := strings.TrimSuffix(text, rest); strings.HasSuffix(short, "m") || strings.HasSuffix(short, "h") {
				text = short
			}
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// Keys returns the keys of the given structs (values or pointers), sorted.
func Keys(cfgs ...any) []string {
	var keys []string
	for _, cfg := range cfgs {
		for _, leaf := range Leaves(cfg) {
			keys = append(keys, leaf.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Leaves walks a struct, or a pointer to one, in order of declaration.
func Leaves(cfg any) []Leaf {
	v := reflect.ValueOf(cfg)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var out []Leaf
	walk(v, "", &out)
	return out
}

func walk(v reflect.Value, prefix string, out *[]Leaf) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("koanf"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		key := prefix + name
		if field.Type.Kind() == reflect.Struct {
			if name != "" {
				key += "."
			}
			walk(v.Field(i), key, out)
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("config: %s.%s has no koanf tag", v.Type(), field.Name))
		}
		*out = append(*out, Leaf{Key: key, Help: field.Tag.Get("help"), Kind: field.Type.Kind(), value: v.Field(i)})
	}
}

// Variable is the environment variable of a key.
func Variable(key string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func keyOf(variable string, own []Leaf) (string, bool) {
	for _, leaf := range own {
		if Variable(leaf.Key) == variable {
			return leaf.Key, true
		}
	}
	return "", false
}

func isKnown(key string, own []Leaf, known []string) bool {
	return slices.ContainsFunc(own, func(l Leaf) bool { return l.Key == key }) || slices.Contains(known, key)
}

func keepOwn(values map[string]any, own []Leaf) map[string]any {
	kept := map[string]any{}
	for _, leaf := range own {
		if v, ok := values[leaf.Key]; ok {
			kept[leaf.Key] = v
		}
	}
	return kept
}

// whereListed says where the names of settings stand.
func whereListed(command string) string { return "turnout " + command + " --help lists them" }

// splitUnknown takes the flags that are not known, with their values, out of args, so that one of them
// does not end the parsing of the others.
func splitUnknown(flags *pflag.FlagSet, args []string) (rest, unknown []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(rest, args[i:]...), unknown
		}
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, hasValue := strings.Cut(name, "=")
		if !isFlag || name == "" || name == "help" {
			rest = append(rest, arg)
			continue
		}
		more := !hasValue && i+1 < len(args)
		flag := flags.Lookup(name)
		if flag == nil {
			unknown = append(unknown, name)
			if more && !strings.HasPrefix(args[i+1], "-") {
				i++
			}
			continue
		}
		rest = append(rest, arg)
		if more && flag.NoOptDefVal == "" {
			i++
			rest = append(rest, args[i])
		}
	}
	return rest, unknown
}

// closest suggests the setting that is written most alike, or one whose last part is the same.
func closest(command, key string, own []Leaf, known []string) string {
	all := allKeys(own, known)
	if near := resource.Nearest(key, all, 1); len(near) > 0 {
		return fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, candidate := range all {
		if strings.HasSuffix(candidate, "."+last) {
			return fmt.Sprintf(" (did you mean %q?)", candidate)
		}
	}
	return " (" + whereListed(command) + ")"
}

func closestVariable(command, name string, own []Leaf, known []string) string {
	all := allKeys(own, known)
	for i, key := range all {
		all[i] = strings.TrimPrefix(Variable(key), Prefix)
	}
	// All begin alike, which would make short names close to each other.
	if near := resource.Nearest(strings.TrimPrefix(name, Prefix), all, 1); len(near) > 0 {
		return fmt.Sprintf(" (did you mean %s?)", Prefix+near[0])
	}
	return " (" + whereListed(command) + ")"
}

func closestFlag(command, name string, flags *pflag.FlagSet) string {
	var all []string
	flags.VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	if near := resource.Nearest(strings.ReplaceAll(name, "-", "_"), all, 1); len(near) > 0 {
		return fmt.Sprintf(" (did you mean --%s?)", near[0])
	}
	return fmt.Sprintf(" (turnout %s --help lists the flags)", command)
}

func allKeys(own []Leaf, known []string) []string {
	all := slices.Clone(known)
	for _, leaf := range own {
		all = append(all, leaf.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func usage(command, words string, own []Leaf) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: flags (each is also a YAML key and, in capitals with %s in front, a variable)\n\n", strings.TrimSpace("turnout "+command+" "+words), Prefix)
	fmt.Fprintf(&b, "  --config FILE\n        settings file (YAML)\n  --check-config\n        check the settings and exit\n")
	for _, leaf := range own {
		fmt.Fprintf(&b, "  --%s\n        %s", leaf.Key, leaf.Help)
		if text := leaf.shown(); text != "" {
			fmt.Fprintf(&b, " (default %s)", text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
