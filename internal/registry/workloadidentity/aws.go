package workloadidentity

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/smithy-go/logging"

	"github.com/heighliner/heighliner/internal/registry"
)

// ecrHost matches the host name of a private registry of Amazon ECR. The name contains the account, an optional suffix for FIPS endpoints, and the region.
// The formats are documented on the pages "Private registry authentication" and "Dual-stack endpoints" of the Amazon ECR User Guide.
var ecrHost = regexp.MustCompile(`^[0-9]{12}\.dkr[.-]ecr(-fips)?\.([a-z]{2,8}(?:-[a-z]{1,16}){1,3}-[0-9]{1,2})\.(?:amazonaws\.(?:com|com\.cn|eu)|on\.aws|on\.amazonwebservices\.com\.cn)$`)

// amazon requests tokens from Amazon ECR. As documented by AWS, the environment defines the identity: IAM roles for service accounts, EKS Pod Identity,
// or the role of the node.
type amazon struct {
	services, registries *http.Client
}

func newAWS(services, registries *http.Client) *amazon { return &amazon{services, registries} }

// scope returns the region, with a suffix for FIPS endpoints, because a token is valid for all registries in the region that the role may read.
func (*amazon) scope(host string) string {
	m := ecrHost.FindStringSubmatch(host)
	if m == nil {
		return ""
	}
	return AWS + "/" + m[2] + m[1]
}

// credential calls GetAuthorizationToken of the Amazon ECR API.
func (a *amazon) credential(ctx context.Context, host string) (registry.Credential, time.Time, error) {
	m := ecrHost.FindStringSubmatch(host)
	region, service := m[2], "Amazon ECR in "+m[2]
	settings, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(a.services), config.WithRegion(region), config.WithLogger(logging.Nop{}),
		config.WithRetryer(func() aws.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), 2) }))
	if err != nil {
		return registry.Credential{}, time.Time{}, &Error{Service: "AWS", Detail: "cannot be called: the environment of the manager does not define a valid identity", cause: err}
	}
	// The credentials are requested separately, so that an error reports the service that failed.
	if _, err := settings.Credentials.Retrieve(ctx); err != nil {
		return registry.Credential{}, time.Time{}, failed("AWS", err)
	}
	out, err := ecr.NewFromConfig(settings, func(o *ecr.Options) {
		o.HTTPClient = a.registries
		if m[1] != "" {
			o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		}
	}).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return registry.Credential{}, time.Time{}, failed(service, err)
	}
	for _, d := range out.AuthorizationData {
		decoded, err := base64.StdEncoding.DecodeString(aws.ToString(d.AuthorizationToken))
		username, password, found := strings.Cut(string(decoded), ":")
		if err == nil && found && d.ExpiresAt != nil {
			return registry.Credential{Username: username, Password: password}, *d.ExpiresAt, nil
		}
	}
	return registry.Credential{}, time.Time{}, failed(service, errors.New("no token in the response"))
}
