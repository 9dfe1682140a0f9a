package providers

import (
	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Services is the provider of a policy without spec.provider. It writes no objects: the controller
// itself changes the selectors of the policy's Services from one release to another, as it does for
// every provider.
type Services struct{}

// Name returns "services".
func (Services) Name() string { return "services" }

// Writes returns nil, because the provider writes no objects.
func (Services) Writes() []Kind { return nil }

// Chosen always returns true. The controller calls it only for a policy for which the Chosen methods
// of all other providers have returned false.
func (Services) Chosen(*v1alpha1.NetworkPolicy) bool { return true }

// NewView returns a view without routes.
func (Services) NewView(Input) View { return noRoutes{} }

// noRoutes is the view of Services, which never has routes.
type noRoutes struct{}

func (noRoutes) Missing(v1alpha1.PortProtocol) *Problem    { return nil }
func (noRoutes) Unsupported(Route) *Problem                { return nil }
func (noRoutes) Live() map[string]*Live                    { return nil }
func (noRoutes) Build(Route) []resources.Object            { return nil }
func (noRoutes) Apart() bool                               { return false }
func (noRoutes) Verdict(Route, []resources.Object) Verdict { return Verdict{Accepted: true} }
func (noRoutes) Serves(Route, string) (string, *Problem) {
	return "", nil
}
func (noRoutes) Splits() bool                             { return false }
func (noRoutes) MayConflict(*v1alpha1.NetworkPolicy) bool { return false }
