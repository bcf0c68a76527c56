package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"turnout/gateway/internal/tenant"
	"turnout/internal/chx"
	"turnout/schemas/resource"
)

// versions writes down once what the versions in events stand for, so that a decision can be made
// again: routing configurations as JSON (storedConfig), price books as resource documents.
type versions struct {
	ch      *chx.Conn
	written map[string]bool // table/version
	last    *tenant.View    // all of it is written
}

// storedConfig is the body of a row of routing_configs.
type storedConfig struct {
	Mode            string           `json:"mode"`
	ModelIDs        string           `json:"model_ids"`
	DefaultStrategy string           `json:"default_strategy"`
	Routing         resource.Routing `json:"routing"`
}

// keep writes what is new in a view. After an error it is to be called again.
func (v *versions) keep(ctx context.Context, view *tenant.View) error {
	if view == v.last {
		return nil
	}
	for i := range view.Set.Projects {
		p, ok := view.Project(view.Set.Projects[i].ID)
		if !ok || v.written["routing_configs/"+p.ConfigVersion] {
			continue
		}
		body, err := json.Marshal(storedConfig{p.Mode, p.ModelIDs, p.DefaultStrategy, p.Routing})
		if err != nil {
			return fmt.Errorf("encoding the configuration of project %s: %w", p.ID, err)
		}
		if err := v.write(ctx, "routing_configs", p.ConfigVersion, string(body)); err != nil {
			return err
		}
	}
	if !v.written["price_books/"+view.PriceVersion] {
		if err := v.write(ctx, "price_books", view.PriceVersion, string(resource.Encode(priceBook(view.Set)))); err != nil {
			return err
		}
	}
	v.last = view
	return nil
}

// priceBook is the part of a set that prices follow from; it names no credential.
func priceBook(set *resource.Set) *resource.Set {
	book := &resource.Set{Models: set.Models, Organizations: set.Organizations}
	for _, p := range set.Providers {
		p.Credentials = nil
		book.Providers = append(book.Providers, p)
	}
	return book
}

func (v *versions) write(ctx context.Context, table, version, body string) error {
	batch, err := v.ch.PrepareBatch(chx.SyncInsert(ctx), "INSERT INTO "+table+" (version, body)")
	if err != nil {
		return fmt.Errorf("writing %s: %w", table, err)
	}
	if err := batch.Append(version, body); err != nil {
		return fmt.Errorf("writing %s: %w", table, err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("writing %s: %w", table, err)
	}
	v.written[table+"/"+version] = true
	return nil
}
