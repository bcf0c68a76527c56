// Package agents runs coding agents from npm through Turnout: opencode, codex and claude-code each read a
// file, edit it and run a test, by a simulated model that plays a script over several upstream protocols.
// `make agents` runs it. Everything is on loopback; a proxy that refuses notes whoever calls out.
package agents
