// Package soak lets many streams run through a gateway against providers and clients that misbehave, and
// checks what is left afterwards: no goroutine, no memory, no false success, one event for each call.
// `make soak` runs it at length: 500 streams for five minutes, or as long as TURNOUT_SOAK_TIME says.
package soak
