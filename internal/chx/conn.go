package chx

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// What callers need of the driver, so that they need not import it.
type (
	Batch    = driver.Batch
	Rows     = driver.Rows
	Row      = driver.Row
	Settings = clickhouse.Settings
)

const (
	dialTimeout = 5 * time.Second
	// readTimeout is how long a server may say nothing at all, where the context sets no other deadline.
	readTimeout = time.Minute
	maxConns    = 16
)

// Named gives the server-side parameter {name:Type} of a query its value.
func Named(name string, value any) driver.NamedValue { return clickhouse.Named(name, value) }

// WithSettings adds ClickHouse settings to the queries made with the context. They replace those of an
// earlier call.
func WithSettings(ctx context.Context, settings Settings) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings))
}

// SyncInsert makes inserts return only when their rows can be read, as one block: servers buffer and
// regroup inserts by default.
func SyncInsert(ctx context.Context) context.Context {
	return WithSettings(ctx, Settings{"async_insert": 0})
}

// Conn is a pool of connections to one server. Safe for concurrent use. A server that was stopped
// without closing its connections holds a call until its context ends, so give it a deadline.
type Conn struct {
	conn  driver.Conn
	where string
}

// Open prepares a pool; nothing is dialled yet. Errors are about settings and certificates.
func Open(cfg Config) (*Conn, error) {
	opts, err := options(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	return &Conn{conn: conn, where: "clickhouse at " + strings.Join(cfg.Addr, ",")}, nil
}

// SQL opens the same server for database/sql, which migrations need.
func SQL(cfg Config) (*sql.DB, error) {
	opts, err := options(cfg)
	if err != nil {
		return nil, err
	}
	return clickhouse.OpenDB(opts), nil
}

func options(cfg Config) (*clickhouse.Options, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	encryption, err := cfg.TLS.Client("clickhouse.tls")
	if err != nil {
		return nil, err
	}
	return &clickhouse.Options{
		Protocol:         clickhouse.Native,
		Addr:             cfg.Addr,
		Auth:             clickhouse.Auth{Database: cfg.Database, Username: cfg.Username, Password: cfg.Password.Reveal()},
		TLS:              encryption,
		Compression:      &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
		DialTimeout:      dialTimeout,
		ReadTimeout:      readTimeout,
		MaxOpenConns:     maxConns,
		MaxIdleConns:     maxConns / 2,
		ConnMaxLifetime:  time.Hour,
		ConnOpenStrategy: clickhouse.ConnOpenInOrder,
		ClientInfo: clickhouse.ClientInfo{Products: []struct {
			Name    string
			Version string
		}{{Name: "turnout"}}},
	}, nil
}

func (c *Conn) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.where, err)
}

// Exec runs a statement without a result.
func (c *Conn) Exec(ctx context.Context, query string, args ...any) error {
	return c.named(c.conn.Exec(ctx, query, args...))
}

// Query returns rows, which must be closed; after the last Next look at their Err.
func (c *Conn) Query(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := c.conn.Query(ctx, query, args...)
	return rows, c.named(err)
}

// QueryRow returns the first row; its Scan returns sql.ErrNoRows if there is none.
func (c *Conn) QueryRow(ctx context.Context, query string, args ...any) Row {
	return c.conn.QueryRow(ctx, query, args...)
}

// Select scans all rows into a pointer to a slice of structs with `ch` tags.
func (c *Conn) Select(ctx context.Context, dest any, query string, args ...any) error {
	return c.named(c.conn.Select(ctx, dest, query, args...))
}

// PrepareBatch begins an insert, which holds a connection until it is sent or aborted. A batch that
// was sent cannot be sent again, whatever came of it: build it anew.
func (c *Conn) PrepareBatch(ctx context.Context, query string) (Batch, error) {
	batch, err := c.conn.PrepareBatch(ctx, query)
	return batch, c.named(err)
}

// Ping asks the server for an answer. The error names the addresses that were tried.
func (c *Conn) Ping(ctx context.Context) error { return c.named(c.conn.Ping(ctx)) }

// Close closes the pool.
func (c *Conn) Close() error { return c.conn.Close() }
