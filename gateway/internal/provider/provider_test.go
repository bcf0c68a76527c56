package provider

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWatch(t *testing.T) {
	reset := errors.New("reset")
	for _, tc := range []struct {
		name    string
		run     func(w *Watch, cancel func())
		class   attempt.Outcome
		message string
	}{
		{"nothing ended it", func(*Watch, func()) {}, attempt.NetworkError, "the connection failed"},
		{"client", func(w *Watch, cancel func()) { cancel(); <-w.Context().Done() }, attempt.Canceled, "the client went away"},
		{"connect", func(w *Watch, _ func()) { w.Until(LimitConnect, 10*time.Millisecond); <-w.Context().Done() }, attempt.NetworkError, "no connection within 10ms"},
		{"first output", func(w *Watch, _ func()) {
			w.Until(LimitFirstOutput, 10*time.Millisecond)
			<-w.Context().Done()
		}, attempt.UpstreamTimeout, "no output within 10ms"},
		{"idle", func(w *Watch, _ func()) {
			w.For(LimitIdle, 5*time.Millisecond, 20*time.Millisecond)
			<-w.Context().Done()
		}, attempt.UpstreamTimeout, "nothing more for 20ms"},
		{"total before a longer limit", func(w *Watch, _ func()) { w.For(LimitIdle, time.Hour, time.Hour); <-w.Context().Done() }, attempt.UpstreamTimeout, "not finished within 200ms"},
		{"put off", func(w *Watch, _ func()) {
			w.Until(LimitFirstByte, 20*time.Millisecond)
			w.Until(LimitFirstByte, 80*time.Millisecond)
			time.Sleep(40 * time.Millisecond)
			if w.Context().Err() != nil {
				panic("the limit that was put off ran out")
			}
			<-w.Context().Done()
		}, attempt.UpstreamTimeout, "no answer within 80ms"},
		{"paused", func(w *Watch, _ func()) {
			w.Until(LimitFirstByte, 20*time.Millisecond)
			w.Pause()
			time.Sleep(40 * time.Millisecond)
		}, attempt.NetworkError, "the connection failed"},
		{"the first end counts", func(w *Watch, cancel func()) {
			w.Until(LimitFirstByte, time.Millisecond)
			<-w.Context().Done()
			cancel()
		}, attempt.UpstreamTimeout, "no answer within 1ms"},
		{"detached", func(w *Watch, cancel func()) {
			w.Detach()
			cancel()
			time.Sleep(5 * time.Millisecond)
			must(w.Context().Err() == nil)
		}, attempt.Canceled, "the client went away"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		w := NewWatch(ctx, 200*time.Millisecond)
		tc.run(w, cancel)
		if e := w.Error(reset); e.Class != tc.class || e.Message != tc.message {
			t.Errorf("%s: %+v", tc.name, e)
		}
		w.Stop()
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	w := NewWatch(ctx, 0)
	defer w.Stop()
	<-w.Context().Done()
	if e := w.Error(reset); e.Class != attempt.UpstreamTimeout {
		t.Errorf("deadline: %+v", e)
	}
}

func must(ok bool) {
	if !ok {
		panic("not so")
	}
}
