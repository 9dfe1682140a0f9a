package identity

import (
	"fmt"
	"net/http"

	"github.com/heighliner/heighliner/internal/web"
)

// Claims selects the claims of an ID token that identify a reader.
type Claims struct {
	Rules
	// User is the claim with the user name, such as sub or email. Groups is the claim with a group or a list of groups; empty if groups are not
	// used.
	User, Groups string
}

// reader returns the reader whom the claims of a token identify.
func (c Claims) reader(claims map[string]any) (web.Reader, error) {
	user, ok := claims[c.User].(string)
	if !ok || user == "" {
		return web.Reader{}, badToken("the claim %q is missing or not a string: see --oidc-username-claim", c.User)
	}
	if c.User == "email" {
		// As in the API server, an unverified address is rejected, because it can belong to anyone.
		if verified, is := claims["email_verified"]; is && verified != true {
			return web.Reader{}, refused("The identity provider did not verify your email address.")
		}
	}
	groups, err := c.groups(claims)
	if err != nil {
		return web.Reader{}, err
	}
	return c.Rules.Reader(user, groups)
}

// groups returns the groups in the claims of a token, or none if the claim is missing.
func (c Claims) groups(claims map[string]any) ([]string, error) {
	if c.Groups == "" {
		return nil, nil
	}
	switch value := claims[c.Groups].(type) {
	case nil:
		if names, ok := claims["_claim_names"].(map[string]any); ok && names[c.Groups] != nil {
			return nil, badToken("the token contains a reference to the claim %q instead of the groups, because there are too many groups: configure the provider to include in the token only the groups that the board uses", c.Groups)
		}
		return nil, nil
	case string:
		return []string{value}, nil
	case []any:
		groups := make([]string, len(value))
		for i, g := range value {
			text, ok := g.(string)
			if !ok {
				return nil, badToken("the claim %q contains a group that is not a string", c.Groups)
			}
			groups[i] = text
		}
		return groups, nil
	}
	return nil, badToken("the claim %q is neither a string nor a list of strings: see --oidc-groups-claim", c.Groups)
}

func badToken(format string, args ...any) *web.Problem {
	return &web.Problem{Status: http.StatusForbidden, Title: "The token from the identity provider cannot be used", Text: "Report this to an administrator of the board: " + fmt.Sprintf(format, args...) + "."}
}
