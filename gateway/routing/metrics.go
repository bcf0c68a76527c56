package routing

// AdjustUptime is the rule for small counts: with fewer attempts in the window than atLeast, the
// missing ones count as successes, so that one failure on a quiet node does not banish a provider.
// An atLeast of 0 switches it off; attempts leave client errors out and are unweighted.
func AdjustUptime(uptime float64, attempts, atLeast int64) float64 {
	if attempts < 0 || attempts >= atLeast {
		return uptime
	}
	n, all := float64(attempts), float64(atLeast)
	return (n*uptime + (all-n)*100) / all
}
