package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"strings"
)

func serverXML(l layout, o Options) string {
	var b strings.Builder
	b.WriteString("<clickhouse>\n")
	element := func(name, value string) {
		fmt.Fprintf(&b, "<%s>%s</%s>\n", name, escaped(value), name)
	}
	element("users_config", l.users)
	element("max_server_memory_usage", fmt.Sprint(o.MemoryBytes))
	element("mark_cache_size", fmt.Sprint(256<<20))
	element("max_concurrent_queries", "200")
	element("background_pool_size", "4")
	element("background_schedule_pool_size", "8")
	element("background_fetches_pool_size", "1")
	element("background_common_pool_size", "2")
	b.WriteString("<logger><level>warning</level><console>1</console><console_log_level>warning</console_log_level></logger>\n")
	b.WriteString("<query_log><database>system</database><table>query_log</table><flush_interval_milliseconds>5000</flush_interval_milliseconds><ttl>event_date + INTERVAL 3 DAY DELETE</ttl></query_log>\n")
	b.WriteString("</clickhouse>\n")
	return b.String()
}

// usersXML makes three users. The engine's own session always logs in as default, which cannot have a
// password: it may open the listeners and nothing else, so that whoever connects without a name can
// read neither tables nor files.
func usersXML(password string, o Options) string {
	hash := sha256.Sum256([]byte(password))
	grants := []string{
		"GRANT SELECT ON system.*",
		"GRANT SYSTEM FLUSH LOGS ON *.*",
		"GRANT TABLE ENGINE ON *",
		"GRANT KILL QUERY ON *.*",
	}
	for _, database := range o.Databases {
		grants = append(grants, fmt.Sprintf("GRANT SELECT, INSERT, ALTER, CREATE, DROP, TRUNCATE, OPTIMIZE, SHOW, dictGet, SYSTEM MERGES, SYSTEM TTL MERGES, SYSTEM VIEWS ON %s.*", database))
	}
	grants = append(grants, o.Grants...)
	reads := make([]string, 0, len(o.Databases))
	for _, database := range o.Databases {
		reads = append(reads, fmt.Sprintf("GRANT SELECT, SHOW ON %s.*", database))
	}
	var b strings.Builder
	b.WriteString("<clickhouse>\n<profiles>\n<default/>\n")
	fmt.Fprintf(&b, "<app><max_memory_usage>%d</max_memory_usage></app>\n", o.MemoryBytes/2)
	// readonly 2 lets a reader change settings, which client libraries do.
	fmt.Fprintf(&b, "<reader><readonly>2</readonly><max_memory_usage>%d</max_memory_usage><max_execution_time>60</max_execution_time><cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close></reader>\n", o.MemoryBytes/4)
	b.WriteString("</profiles>\n<quotas><default/></quotas>\n<users>\n")
	user := func(name, secret, profile string, grants []string) {
		fmt.Fprintf(&b, "<%s>%s<profile>%s</profile><quota>default</quota><networks><ip>::1</ip><ip>127.0.0.1</ip></networks><grants>", name, secret, profile)
		for _, grant := range grants {
			fmt.Fprintf(&b, "<query>%s</query>", escaped(grant))
		}
		fmt.Fprintf(&b, "</grants></%s>\n", name)
	}
	user("default", "<password/>", "default", []string{"GRANT SYSTEM LISTEN ON *.*"})
	user(AppUser, "<password_sha256_hex>"+hex.EncodeToString(hash[:])+"</password_sha256_hex>", "app", grants)
	user(Analyst, "<no_password/>", "reader", reads)
	b.WriteString("</users>\n</clickhouse>\n")
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	return b.String()
}
