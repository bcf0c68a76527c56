// Package sim is a set of simulated OpenAI-protocol providers in one process, for development, demos,
// benchmarks and tests that must know afterwards what really left for a provider.
//
// Each provider has a base path of its own, http://HOST:PORT/<provider>/v1, and there
// chat/completions (plain and SSE), embeddings and models.
//
// # Tokens
//
// A token is four Unicode characters, rounded up over the whole text: "Hello world" is 3. A prompt is
// the JSON of its tools followed by the text of its messages; an image adds 560. Answers are counted
// alike, so every usage can be checked by hand. max_tokens (max_completion_tokens) and vLLM's
// min_tokens are respected; how long an answer is otherwise is drawn from output_tokens.
//
// # Prompt caches
//
// Every provider keeps the prompts it has seen, per model, in blocks of cache.block_tokens. The
// longest run of blocks from the front that it still has is reported as
// prompt_tokens_details.cached_tokens. Blocks leave least recently used first, or cache.ttl_seconds
// after their last use.
//
// # Behaviour
//
// PUT /control/<provider> takes a JSON object of the fields of Behavior; what it leaves out stays as
// it is. DELETE /control/<provider> goes back to how the provider started; GET /control shows all.
// Whether and how a call fails, how long it takes and how much it says is a function of the seed, the
// provider and the number of the call there, nothing else: the same calls in the same order meet the
// same fate. Rate limits and cache lifetimes go by the clock.
//
// # Ledger
//
// Every call that arrived is an Entry with its trace parent, written before the first byte of its
// answer. GET /ledger?since=SEQ gives the entries after that sequence number as JSON lines, DELETE
// /ledger forgets them all. The newest entries stay in memory; how many were dropped stands in the
// header X-Ledger-Dropped and in GET /control. With a ledger file they survive restarts, and calls
// under way when the process was killed are in it as "open".
package sim
