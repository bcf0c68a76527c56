package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

type kafka struct {
	Brokers  []string      `koanf:"brokers" help:"addresses"`
	Password config.Secret `koanf:"password" help:"password"`
}

type settings struct {
	Listen string        `koanf:"listen" help:"address"`
	Wait   time.Duration `koanf:"poll_interval" help:"how long"`
	Bytes  int64         `koanf:"max_body_bytes" help:"bytes"`
	On     bool          `koanf:"on" help:"switch"`
	Kafka  kafka         `koanf:"kafka"`
}

func (s *settings) Words() string { return "WORD" }

func (s *settings) Validate() error {
	if s.Listen == "bad" {
		return errors.New("listen: bad")
	}
	return nil
}

func load(t *testing.T, yaml string, environ []string, args ...string) (settings, config.Result, error) {
	t.Helper()
	if yaml != "" {
		path := filepath.Join(t.TempDir(), "turnout.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	s := settings{Listen: "default", Wait: time.Minute}
	r, err := config.Load("gateway", &s, lifecycle.Env{Args: args, Environ: environ, Stdout: &bytes.Buffer{}}, []string{"analytics.listen", "chdb_lib"})
	return s, r, err
}

func TestLaterPlacesWin(t *testing.T) {
	yaml := "listen: file\npoll_interval: 10s\nmax_body_bytes: 5\nkafka: {brokers: [a, b]}\nanalytics: {listen: x}\n"
	s, r, err := load(t, yaml, []string{"TURNOUT_LISTEN=env", "TURNOUT_POLL_INTERVAL=20s", "TURNOUT_CHDB_LIB=x", "HOME=y"}, "--listen=flag", "--kafka.brokers", "c,d", "--max-body_bytes=7", "--on", "--check-config", "rest")
	if err != nil {
		t.Fatal(err)
	}
	want := settings{Listen: "flag", Wait: 20 * time.Second, Bytes: 7, On: true, Kafka: kafka{Brokers: []string{"c", "d"}}}
	if fmt.Sprint(s) != fmt.Sprint(want) || !r.CheckOnly || len(r.Args) != 1 {
		t.Errorf("got %+v %+v, want %+v", s, r, want)
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	_, _, err := load(t, "lisen: x\npoll_interval: soon\nkafka: {broker: a}\n", []string{"TURNOUT_ON=maybe", "TURNOUT_KAFKA_BROKER=x"}, "--max-body-bytes=many")
	if lifecycle.Code(err) != 2 {
		t.Fatalf("code of %v", err)
	}
	for _, want := range []string{`unknown setting "lisen"`, `unknown setting "kafka.broker" (did you mean "kafka.brokers"?)`, "TURNOUT_KAFKA_BROKER (did you mean TURNOUT_KAFKA_BROKERS?)", `unknown setting "lisen" (did you mean "listen"?)`, `poll_interval: "soon" is not a duration`, `on: "maybe" is not true or false (from TURNOUT_ON)`, `max_body_bytes: "many" is not a whole number (from --max_body_bytes)`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// A value that does not fit is refused: it is never bent until it does.
func TestValuesAreNotBent(t *testing.T) {
	for yaml, want := range map[string]string{
		"max_body_bytes: 1.5":     `max_body_bytes: "1.5" is not a whole number`,
		"max_body_bytes: true":    `max_body_bytes: "true" is not a whole number`,
		"poll_interval: 25":       `poll_interval: "25" is not a duration such as "30s"`,
		"poll_interval: 2.5":      `poll_interval: "2.5" is not a duration`,
		"listen: true":            `listen: "true" is not a text`,
		"on: 2":                   `on: "2" is not true or false`,
		"kafka: {password: true}": `kafka.password: [redacted] is not a text`,
	} {
		if s, _, err := load(t, yaml, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v with %+v, want %q", yaml, err, s, want)
		}
	}
	s, _, err := load(t, "max_body_bytes: 1e6\npoll_interval: 0\nlisten: 8080\nkafka: {password: 12345, brokers: \"a:1, b:2 ,c:3\"}", nil)
	if err != nil || s.Bytes != 1_000_000 || s.Wait != 0 || s.Listen != "8080" || s.Kafka.Password.Reveal() != "12345" {
		t.Errorf("%+v %v", s, err)
	}
	if got := fmt.Sprintf("%q", s.Kafka.Brokers); got != `["a:1" "b:2" "c:3"]` {
		t.Errorf("a list with spaces became %s", got)
	}
}

func TestAFlagOfAnotherComponentIsRefused(t *testing.T) {
	if _, _, err := load(t, "", nil, "--analytics.listen=x"); lifecycle.Code(err) != 2 {
		t.Errorf("got %v", err)
	}
}

func TestValidateIsAsked(t *testing.T) {
	if _, _, err := load(t, "", nil, "--listen=bad"); err == nil || !strings.Contains(err.Error(), "listen: bad") {
		t.Errorf("got %v", err)
	}
}

// A value that cannot be read used to hide what is wrong with the others.
func TestAnUnreadableValueDoesNotHideAWrongOne(t *testing.T) {
	_, _, err := load(t, "poll_interval: soon\n", nil, "--listen=bad")
	if err == nil || !strings.Contains(err.Error(), "poll_interval") || !strings.Contains(err.Error(), "listen: bad") {
		t.Errorf("got %v", err)
	}
}

// `turnout dev resources` used to start without the resources.
func TestWordsBesideTheFlagsAreRefusedWhereNoneBelong(t *testing.T) {
	var none struct {
		Listen string `koanf:"listen" help:"address"`
	}
	_, err := config.Load("gateway", &none, lifecycle.Env{Args: []string{"--listen", "x", "resources"}}, nil)
	if lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), `unexpected argument "resources"`) {
		t.Errorf("got %v", err)
	}
}

// What stood behind a second --- used to be ignored without a word.
func TestASecondDocumentIsRefused(t *testing.T) {
	_, _, err := load(t, "listen: a:1\n---\npoll_interval: 9s\n", nil)
	if lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), ".yaml:3: a second YAML document") {
		t.Errorf("got %v", err)
	}
	for _, one := range []string{"---\nlisten: a:1\n", "# settings\n---\nlisten: a:1\n", "listen: a:1\n---\n", "listen: a:1\n...\n"} {
		if s, _, err := load(t, one, nil); err != nil || s.Listen != "a:1" {
			t.Errorf("%q: got %q, %v", one, s.Listen, err)
		}
	}
}

func TestHelp(t *testing.T) {
	if _, _, err := load(t, "", nil, "--help"); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	s, _, err := load(t, "", []string{"TURNOUT_KAFKA_PASSWORD=hunter2"})
	if err != nil || s.Kafka.Password.Reveal() != "hunter2" {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, s.Kafka.Password); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}

// An unknown flag used to end the parsing, so that other mistakes showed on the next run only.
func TestAnUnknownFlagDoesNotHideOtherMistakes(t *testing.T) {
	_, _, err := load(t, "lisen: x\n", []string{"TURNOUT_POLL_INTERVAL=soon"}, "--lisen", "x", "--on=maybe", "--zzzzzzzz=1", "--max-body-bytes", "many")
	if lifecycle.Code(err) != 2 {
		t.Fatalf("code of %v", err)
	}
	for _, want := range []string{
		"unknown flag: --lisen (did you mean --listen?)", "unknown flag: --zzzzzzzz (turnout gateway --help lists the flags)",
		`unknown setting "lisen"`, `poll_interval: "soon" is not a duration`, `on: "maybe" is not true or false (from --on)`,
		`max_body_bytes: "many" is not a whole number (from --max_body_bytes)`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// `kafka.brokrs` neither begins nor ends like a setting.
func TestAMisspeltSettingIsSuggestedByEditDistance(t *testing.T) {
	_, _, err := load(t, "kafka: {brokrs: a}\n", nil)
	if err == nil || !strings.Contains(err.Error(), `unknown setting "kafka.brokrs" (did you mean "kafka.brokers"?)`) {
		t.Errorf("got %v", err)
	}
}
