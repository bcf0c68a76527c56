package chaos

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The judgement can fail: what chaos is to find is put there by hand, and found.
func (r *rig) seesFaults(t *testing.T) {
	t.Helper()
	do := func(statement string) {
		t.Helper()
		if err := r.db.Exec(t.Context(), statement+" SETTINGS mutations_sync = 1"); err != nil {
			t.Fatal(err)
		}
	}
	ledger := r.sim.Ledger(0)
	lost := ledger[len(ledger)/2].SpanID
	do("ALTER TABLE attempts DELETE WHERE span_id = '" + lost + "'")
	v, err := r.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.Lost != 1 || v.Buckets == 0 || !strings.Contains(strings.Join(v.First, " "), lost) {
		t.Errorf("a row was deleted, and what is seen is %+v", v)
	}
	do("ALTER TABLE attempts UPDATE span_id = 'made-up' WHERE span_id = '" + ledger[len(ledger)/3].SpanID + "' AND outcome = 'completed'")
	do("ALTER TABLE attempts UPDATE span_id = '" + ledger[0].SpanID + "' WHERE span_id = '" + ledger[1].SpanID + "'")
	do("ALTER TABLE snapshot_rows UPDATE attempts = attempts + 1 WHERE 1")
	if v, err = r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v.Double != 1 || v.Lost < 2 || v.Shots != 1 {
		t.Errorf("rows and snapshot were changed, and what is seen is %+v", v)
	}
}

// eventsSeen waits until a snapshot holds something, so that comparing it means something.
func (r *rig) eventsSeen() {
	r.t.Helper()
	r.eventually(30*time.Second, "a snapshot with rows", func() error {
		var n int64
		err := r.db.QueryRow(r.t.Context(), "SELECT sum(row_count) FROM snapshot_heads").Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("every snapshot is empty")
		}
		return err
	})
}
