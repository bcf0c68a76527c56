package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"turnout/internal/chx"
	"turnout/schemas/attempt"
)

// ClickHouse is the Store of a running system.
type ClickHouse struct{ Conn *chx.Conn }

// oneEach leaves of each event the row that stays when parts are merged. Asked for so, rows are found by
// the index on request_id; FINAL would first merge what has nothing to do with the request.
const oneEach = " WHERE request_id = ? ORDER BY version DESC LIMIT 1 BY event_id"

// Attempts reads the attempts of a request.
func (c ClickHouse) Attempts(ctx context.Context, requestID string) ([]attempt.Event, error) {
	return read[attempt.Event](ctx, c.Conn, "SELECT * FROM attempts"+oneEach, requestID)
}

// Refusals reads the refusals of a request.
func (c ClickHouse) Refusals(ctx context.Context, requestID string) ([]attempt.Refused, error) {
	return read[attempt.Refused](ctx, c.Conn, "SELECT * FROM refusals"+oneEach, requestID)
}

// RoutingConfig reads what a config_version stands for.
func (c ClickHouse) RoutingConfig(ctx context.Context, version string) ([]byte, error) {
	return c.body(ctx, "routing_configs", version)
}

// PriceBook reads what a price_version stands for.
func (c ClickHouse) PriceBook(ctx context.Context, version string) ([]byte, error) {
	return c.body(ctx, "price_books", version)
}

func (c ClickHouse) body(ctx context.Context, table, version string) ([]byte, error) {
	rows, err := c.Conn.Query(ctx, "SELECT body FROM "+table+" WHERE version = ? LIMIT 1", version)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var body string
	for rows.Next() {
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil || body == "" {
		return nil, err
	}
	return []byte(body), nil
}

// read reads rows into structs by their JSON names, which are the names of the columns. Columns that
// the struct does not know are passed over, as those of a later release.
func read[T any](ctx context.Context, conn *chx.Conn, query, requestID string) ([]T, error) {
	rows, err := conn.Query(ctx, query, requestID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, names := rows.ColumnTypes(), rows.Columns()
	fields := fieldsOf(reflect.TypeFor[T]())
	var out []T
	for rows.Next() {
		targets := make([]any, len(types))
		for i, t := range types {
			targets[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		var one T
		for i, name := range names {
			if err := set(reflect.ValueOf(&one).Elem(), fields, name, reflect.ValueOf(targets[i]).Elem()); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// nested ends the names of columns that hold a field as the JSON it came in.
const nested = "_json"

func set(to reflect.Value, fields map[string]int, name string, value reflect.Value) error {
	if base, ok := strings.CutSuffix(name, nested); ok && value.Kind() == reflect.String {
		if i, known := fields[base]; known && value.String() != "" {
			if err := json.Unmarshal([]byte(value.String()), to.Field(i).Addr().Interface()); err != nil {
				return fmt.Errorf("column %s: %w", name, err)
			}
		}
		return nil
	}
	i, ok := fields[name]
	if !ok {
		return nil
	}
	field := to.Field(i)
	if !value.CanConvert(field.Type()) {
		return fmt.Errorf("column %s has the type %s, which is no %s", name, value.Type(), field.Type())
	}
	field.Set(value.Convert(field.Type()))
	return nil
}

// fieldsOf are the fields of a struct by JSON name.
func fieldsOf(t reflect.Type) map[string]int {
	out := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			out[name] = i
		}
	}
	return out
}
