// Package oidc signs people in at an OpenID provider: code flow with PKCE, state
// and nonce, and what the provider says of a person, checked.
//
// It keeps nothing: what a sign-in needs until the person comes back is a Flow,
// which its caller puts where only that person's browser can show it again. The
// provider is asked when somebody signs in and not before, so one that is away
// hinders nobody who is in already.
package oidc
