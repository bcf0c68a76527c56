package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"turnout/deploy/internal/process"
	"turnout/internal/chx"
	"turnout/internal/config"
)

// Database is where Turnout's tables live, and AppUser who may do everything in it. Analyst may read
// it, without a password.
const (
	Database = "turnout"
	AppUser  = "turnout"
	Analyst  = "analyst"
)

// Options say how ClickHouse runs. Only Dir is needed.
type Options struct {
	Dir        string // data, configuration, log; made if missing
	HTTPPort   int    // 0: a free one
	NativePort int    // 0: a free one
	HTTPFlag   string // flags named when a port is taken
	NativeFlag string
	Lib        string // path of libchdb, setting chdb_lib; see FindLibrary
	// Databases that AppUser may make and fill; a * at the end stands for anything. Default: Database,
	// which is also created.
	Databases []string
	// Grants are what AppUser may do beyond that, such as "GRANT KAFKA ON *.*".
	Grants []string
	// MemoryBytes caps the whole server. Default 3 GiB; one query may take half of it.
	MemoryBytes int64
}

// Server is a running ClickHouse.
type Server struct {
	*Process
	httpPort, nativePort int
	password             config.Secret
}

// StartClickHouse starts the server and returns when it answers. It outlives ctx; Stop or Kill ends
// it, and so does the end of this process. A directory serves one server at a time.
func StartClickHouse(ctx context.Context, o Options) (*Server, error) {
	library, err := FindLibrary(o.Lib)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(process.CheckPort("clickhouse http", o.HTTPPort, o.HTTPFlag), process.CheckPort("clickhouse native", o.NativePort, o.NativeFlag)); err != nil {
		return nil, err
	}
	if len(o.Databases) == 0 {
		o.Databases = []string{Database}
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 3 << 30
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("clickhouse data directory: %w", err)
	}
	lock, err := lockDir("clickhouse", dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	s := &Server{}
	layout := layoutOf(dir)
	if s.password, err = layout.prepare(o); err != nil {
		return nil, fmt.Errorf("clickhouse data directory: %w", err)
	}

	args := append([]string{"clickhouse", "--lib", library, "--"}, layout.arguments(o)...)
	if s.Process, err = spawn("clickhouse", layout.log, lock, args...); err != nil {
		return nil, err
	}
	err = s.Await(ctx, func() (bool, error) {
		ports, err := readPorts(layout.ports)
		switch {
		case err == nil:
			s.httpPort, s.nativePort = ports[0], ports[1]
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
		// A failed listener leaves a live process behind.
		if log := s.Log(); strings.HasPrefix(log, "Code: ") || strings.Contains(log, "\nCode: ") {
			return false, errors.New("it cannot serve")
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.createDatabase(ctx, o.Databases); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// createDatabase makes the plain names among databases, as the app user: the engine's own session
// may not.
func (s *Server) createDatabase(ctx context.Context, databases []string) error {
	cfg := s.Config()
	cfg.Database = "system"
	conn, err := chx.Open(cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, name := range databases {
		if strings.HasSuffix(name, "*") {
			continue
		}
		if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+name); err != nil {
			return fmt.Errorf("creating database %s: %w", name, err)
		}
	}
	return nil
}

// Config is how Turnout's own processes reach the server.
func (s *Server) Config() chx.Config {
	return chx.Config{
		Addr:     []string{process.Loopback(s.nativePort)},
		HTTP:     "http://" + s.HTTPAddr(),
		Database: Database,
		Username: AppUser,
		Password: s.password,
	}
}

// HTTPAddr is the host:port of the HTTP listener.
func (s *Server) HTTPAddr() string { return process.Loopback(s.httpPort) }

// NativeAddr is the host:port of the native listener.
func (s *Server) NativeAddr() string { return process.Loopback(s.nativePort) }

// layout is what stands where in the data directory.
type layout struct {
	data, config, users, password, ports, log string
}

func layoutOf(dir string) layout {
	in := func(name string) string { return filepath.Join(dir, name) }
	return layout{data: in("data"), config: in("config.xml"), users: in("users.xml"), password: in("password"), ports: in("ports"), log: in("clickhouse.log")}
}

// prepare writes the configuration and returns the app user's password, which is made once.
func (l layout) prepare(o Options) (config.Secret, error) {
	if err := os.MkdirAll(l.data, 0o700); err != nil {
		return "", err
	}
	password, err := os.ReadFile(l.password)
	if errors.Is(err, fs.ErrNotExist) {
		password = []byte(rand.Text())
		err = os.WriteFile(l.password, password, 0o600)
	}
	if err != nil {
		return "", err
	}
	// The engine keeps its system database in memory; what an earlier run left of it on disk makes the
	// query log unusable.
	for _, stale := range []string{l.ports, filepath.Join(l.data, "data", "system")} {
		if err := os.RemoveAll(stale); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(l.config, []byte(serverXML(l, o)), 0o600); err != nil {
		return "", err
	}
	return config.Secret(password), os.WriteFile(l.users, []byte(usersXML(string(password), o)), 0o600)
}

func (l layout) arguments(o Options) []string {
	return []string{
		"--interactive", "--disable_suggestion", "--progress=off", "--progress-table=off", "--history_file=/dev/null",
		"--config-file=" + l.config,
		"--logger.level=warning",
		"--path=" + l.data,
		"--http_port=" + strconv.Itoa(o.HTTPPort),
		"--tcp_port=" + strconv.Itoa(o.NativePort),
		"--listen_host=127.0.0.1",
		// The file appears when every listener is up, and only then.
		"--query=SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; SELECT getServerPort('http_port'), getServerPort('tcp_port') INTO OUTFILE '" + strings.ReplaceAll(l.ports, "'", "\\'") + "' TRUNCATE FORMAT TSV",
	}
}

func readPorts(path string) ([]int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(string(data), "\n") {
		return nil, fs.ErrNotExist // not written yet
	}
	var ports []int
	for field := range strings.FieldsSeq(string(data)) {
		port, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("the port file %s: %w", path, err)
		}
		ports = append(ports, port)
	}
	if len(ports) < 2 {
		return nil, fmt.Errorf("the port file %s holds %q", path, data)
	}
	return ports, nil
}
