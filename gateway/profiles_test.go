package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// The project that brings the 17th history is told so; the others are served.
func TestAProjectThatIsRefusedIsToldWhy(t *testing.T) {
	u := newUpstreams(t)
	documents := resources(u.URL, noExploration, providerSpec{id: "alpha"})
	for i := range 16 {
		documents += fmt.Sprintf("---\n{kind: project, id: p%02d, organization: acme, routing: {history: {window_minutes: %d}}}\n---\n{kind: api_key, id: k%02d, project: p%02d, hash: \"sha256:%s\"}\n", i, 10+i, i, i, hexSum(fmt.Sprintf("to-%02d", i)))
	}
	n := start(t, documents, nil).ready()
	for i := range 16 {
		r := n.do("POST", n.url+"/v1/chat/completions", chatBody, "Authorization", fmt.Sprintf("Bearer to-%02d", i))
		if i < 15 {
			if r.status != 200 {
				t.Errorf("project %d: %d %s", i, r.status, r.body)
			}
			continue
		}
		if r.status != 403 || r.at("error.code") != "project_refused" || r.at("error.type") != "permission_error" || !strings.Contains(r.body, "p15 is not served") || !strings.Contains(r.body, "window_minutes 25") {
			t.Errorf("the refused project: %d %s", r.status, r.body)
		}
	}
	if !strings.Contains(n.logs.String(), `subject="project p15 routing.history"`) {
		t.Error("the log does not name it")
	}
	if r := n.do("GET", n.admin+"/metrics", ""); !strings.Contains(r.body, "turnout_gateway_resources_left_out 1\n") {
		t.Error("the metric does not count it")
	}
}
