// Package spec is the YAML that an operator writes: one file per kind, each
// with its fields, defaults and rules. Parse reads documents and reports every
// problem with file, line, column and field; the Decode functions read the
// stored body of one version.
//
// The body of a version is canonical JSON of apiVersion, kind, metadata (name
// and labels, never the namespace) and spec with every default filled in. Its
// digest is the hash of exactly those bytes, so the same text in two namespaces
// has one digest, and a digest is always computed from stored bytes, never from
// a decoded value: a later release may know more fields and defaults.
//
// Numbers are exact decimals from the YAML text to the rendered template; none
// passes through a float, except inside CEL (see Condition).
//
// A definition holds no secret. It names where one is found (SecretRef), and
// the process that uses it resolves the name.
package spec
