// Package load drives an OpenAI-compatible gateway and says what came back, either with made-up
// requests or by replaying a trace of real ones.
//
// With a rate (or a trace, whose times are the schedule) the load is open: a request is due when its
// time has come, whether or not earlier ones have been answered, and its latency counts from when it
// was due. A slow gateway therefore cannot slow the load down and hide it. Without a rate, each of
// Concurrency workers sends its next request when it has the answer to the last.
//
// Prompts are made up, deterministic, and as long as asked in the simulators' tokens (four
// characters). Replayed Mooncake prompts share the prefixes that their block ids name: every block
// id has its own text of 512 tokens. So that answers are as long as the trace says, max_tokens is sent
// and with it min_tokens, which vLLM and the simulators understand.
package load
