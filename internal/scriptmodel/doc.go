// Package scriptmodel is a model server that speaks Anthropic's Messages and
// OpenAI's Chat Completions and Responses over HTTP, plain and streamed, and
// answers from a script instead of a neural network. The official SDKs work
// against it unchanged, and one script serves all three (dialect.go).
//
// A script is a pure function of the request, so a request that is made again
// after a crash gets the same answer, byte for byte. The server is strict where
// providers are strict: a history that breaks a rule of the API (roles out of
// turn, a tool call without its result, a thinking block that changed, tools
// that differ from the conversation's earlier requests) is answered 400 and
// kept as a Violation, so that a test or a demo fails on it. It goes further in
// one point: an earlier answer must come back as it was given, because a caller
// that invents or loses an answer has lost its place.
//
// Every request is recorded with its conversation, its arrival and its end, so
// that a caller can count from outside what was asked twice. The server does
// not know tokens: usage is what the script says.
//
// Source: the providers' public API references for POST /v1/messages, "Errors",
// "Streaming messages", POST /v1/chat/completions and POST /v1/responses.
package scriptmodel
