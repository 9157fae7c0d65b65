// Package authn says who a request comes from: bearer tokens, the roles they
// carry and the principal that every command and decision records.
//
// A token belongs to one namespace and has one role. Only its SHA-256 is
// stored. The package knows no HTTP; internal/door does.
package authn
