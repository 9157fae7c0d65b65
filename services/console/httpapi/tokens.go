package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// Token is a bearer token without the token itself.
type Token struct {
	ID        string     `json:"id"`
	Name      string     `json:"name" doc:"the principal that commands and decisions record"`
	Namespace string     `json:"namespace"`
	Role      string     `json:"role" enum:"viewer,operator,approver,admin"`
	Groups    []string   `json:"groups,omitempty" doc:"for rules about who may decide"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy string     `json:"revoked_by,omitempty"`
}

func wireToken(t console.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Namespace: t.Namespace, Role: t.Role, Groups: t.Groups, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: orNil(t.ExpiresAt), RevokedAt: orNil(t.RevokedAt), RevokedBy: t.RevokedBy}
}

// NewToken is a token that was just made: the only time it is shown.
type NewToken struct {
	Token
	Secret string `json:"token" doc:"shown once; only its hash is kept"`
}

type createTokenInput struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"120" pattern:"^[A-Za-z0-9][A-Za-z0-9 ._@+-]*$" doc:"who will act with it"`
		Role      string     `json:"role" enum:"viewer,operator,approver,admin"`
		Groups    []string   `json:"groups,omitempty" maxItems:"50" doc:"that rules about who may decide name: 1 to 63 of A-Z a-z 0-9 . _ @ + -"`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
}

type createTokenOutput struct{ Body NewToken }

type listTokensOutput struct{ Body door.Page[Token] }

type tokenPath struct {
	ID string `path:"id" pattern:"^[0-9a-f-]{36}$"`
}

type tokenOutput struct{ Body Token }

type tokenCursor struct {
	After string `json:"a"`
}

// Mint makes a token for t's principal, stores its hash and returns it. It is
// also how the first token of a namespace is made, straight into the database.
func Mint(ctx context.Context, store console.TokenStore, t console.Token) (token string, stored console.Token, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", console.Token{}, err
	}
	token = authn.NewToken()
	hash := authn.HashToken(token)
	t.ID, t.Hash = id.String(), hash[:]
	stored, err = store.AddToken(ctx, t)
	if err != nil {
		return "", console.Token{}, err
	}
	return token, stored, nil
}

func (a *api) tokens() {
	door.Register(a.door, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Summary: "Make a bearer token for this namespace", Tags: []string{"tokens"},
		DefaultStatus: http.StatusCreated,
	}, authn.Admin, func(ctx context.Context, in *createTokenInput) (*createTokenOutput, error) {
		p, _ := authn.FromContext(ctx)
		t := console.Token{Namespace: p.Namespace, Role: in.Body.Role, Name: in.Body.Name, Groups: in.Body.Groups, CreatedBy: p.Name}
		for i, g := range t.Groups {
			if !spec.ValidGroup(g) {
				return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "a group has a name that is none").At(fmt.Sprintf("body.groups[%d]", i), "1 to 63 of A-Z a-z 0-9 . _ @ + -, starting with a letter or digit")
			}
		}
		if at := in.Body.ExpiresAt; at != nil {
			if at.Before(time.Now()) {
				return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the token would be expired already").At("body.expires_at", "is in the past")
			}
			t.ExpiresAt = *at
		}
		if a.people.Provider != nil && strings.Contains(t.Name, "@") {
			return nil, problem(console.ErrNameTaken, "the token %s", t.Name)
		}
		token, stored, err := Mint(ctx, a.console, t)
		if err != nil {
			return nil, problem(err, "the token %s", t.Name)
		}
		return &createTokenOutput{NewToken{Token: wireToken(stored), Secret: token}}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Summary: "List tokens, also revoked ones", Tags: []string{"tokens"},
	}, authn.Admin, func(ctx context.Context, in *door.PageInput) (*listTokensOutput, error) {
		p, _ := authn.FromContext(ctx)
		var at tokenCursor
		if _, err := door.DecodeCursor(in.Cursor, &at); err != nil {
			return nil, err
		}
		found, err := a.console.Tokens(ctx, p.Namespace, at.After, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return &listTokensOutput{door.PageOf(found, in.Limit, func(t console.Token) any { return tokenCursor{t.ID} }, wireToken)}, nil
	})

	door.Register(a.door, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Summary: "Revoke a token", Tags: []string{"tokens"},
		Description: "It stops working within two seconds everywhere. Repeating is harmless.", DefaultStatus: http.StatusOK,
	}, authn.Admin, func(ctx context.Context, in *tokenPath) (*tokenOutput, error) {
		p, _ := authn.FromContext(ctx)
		t, err := a.console.RevokeToken(ctx, p.Namespace, in.ID, p.Name)
		if err != nil {
			return nil, problem(err, "token %s", in.ID)
		}
		return &tokenOutput{wireToken(t)}, nil
	})
}
