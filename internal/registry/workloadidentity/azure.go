package workloadidentity

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/containers/azcontainerregistry"

	"github.com/heighliner/heighliner/internal/registry"
)

// azureHost matches the host of an Azure registry in the public cloud, in China, or in the US government cloud.
var azureHost = regexp.MustCompile(`^[a-z0-9-]{5,60}(?:\.[a-z0-9-]{2,40}\.data|\.[a-z]{2,30}\.geo)?\.azurecr\.(?:io|cn|us)$`)

const (
	// tokensForRegistries is the OAuth scope of tokens that registries exchange for refresh tokens.
	tokensForRegistries = "https://containerregistry.azure.net/.default"
	// tokenUser is the user name that registries require with a refresh token.
	tokenUser = "00000000-0000-0000-0000-000000000000"
	// refreshLife is how long a refresh token is used. Registries issue refresh tokens that are valid for three hours, but the response does
	// not contain this duration.
	refreshLife = time.Hour
)

// azure exchanges a Microsoft Entra ID token for a refresh token of the registry. The environment defines the
// identity, which is either Microsoft Entra Workload ID or the managed identity of the node.
type azure struct {
	services, registries *http.Client
	now                  func() time.Time
	// instanceDiscovery enables the instance discovery of the authority. Tests disable it, because they use other authorities.
	instanceDiscovery bool
}

func newAzure(services, registries *http.Client) *azure {
	return &azure{services: services, registries: registries, now: time.Now, instanceDiscovery: true}
}

// scope returns the host, because a refresh token is valid for one registry.
func (*azure) scope(host string) string {
	if azureHost.MatchString(host) {
		return Azure + "/" + host
	}
	return ""
}

// credential calls POST /oauth2/exchange on the registry, as defined in the Azure Container Registry REST API.
func (a *azure) credential(ctx context.Context, host string) (registry.Credential, time.Time, error) {
	identity, err := a.identity()
	if err != nil {
		return registry.Credential{}, time.Time{}, &Error{Service: "Azure", Detail: "cannot be called: the environment of the manager does not define a valid identity", cause: err}
	}
	token, err := identity.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{tokensForRegistries}})
	if err != nil {
		return registry.Credential{}, time.Time{}, failed("Microsoft Entra ID", unwrapEntra(err))
	}
	client, err := azcontainerregistry.NewAuthenticationClient("https://"+host, &azcontainerregistry.AuthenticationClientOptions{ClientOptions: options(a.registries)})
	if err != nil {
		return registry.Credential{}, time.Time{}, failed(host, err)
	}
	exchange := &azcontainerregistry.AuthenticationClientExchangeAADAccessTokenForACRRefreshTokenOptions{AccessToken: &token.Token}
	if tenant := os.Getenv("AZURE_TENANT_ID"); tenant != "" {
		exchange.Tenant = &tenant
	}
	out, err := client.ExchangeAADAccessTokenForACRRefreshToken(ctx, azcontainerregistry.PostContentSchemaGrantTypeAccessToken, host, exchange)
	if err != nil {
		return registry.Credential{}, time.Time{}, failed(host, err)
	}
	if out.RefreshToken == nil || *out.RefreshToken == "" {
		return registry.Credential{}, time.Time{}, failed(host, errors.New("no token in the response"))
	}
	return registry.Credential{Username: tokenUser, IdentityToken: *out.RefreshToken}, a.now().Add(refreshLife), nil
}

// identity returns a new credential for the identity that the environment describes. If the environment refers to a token file, the new credential reads
// the current token from the file. The file is replaced before the token expires.
func (a *azure) identity() (azcore.TokenCredential, error) {
	if os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "" {
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options(a.services), DisableInstanceDiscovery: !a.instanceDiscovery,
		})
	}
	managed := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options(a.services)}
	if id := os.Getenv("AZURE_CLIENT_ID"); id != "" {
		managed.ID = azidentity.ClientID(id)
	}
	return azidentity.NewManagedIdentityCredential(managed)
}

// options returns the options for clients of Azure's library, with few retries and no telemetry.
func options(c *http.Client) azcore.ClientOptions {
	return azcore.ClientOptions{Transport: c, Retry: policy.RetryOptions{MaxRetries: 1, RetryDelay: 500 * time.Millisecond}, Telemetry: policy.TelemetryOptions{Disabled: true}}
}

// unwrapEntra returns an error with the status of the response.
func unwrapEntra(err error) error {
	var failed *azidentity.AuthenticationFailedError
	if errors.As(err, &failed) && failed.RawResponse != nil {
		return &azcore.ResponseError{StatusCode: failed.RawResponse.StatusCode, RawResponse: failed.RawResponse}
	}
	return err
}
