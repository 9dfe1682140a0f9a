package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/manifest"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/watches"
)

// The limits for a correct installation.
const (
	minMinor = 33 // minimum minor version of Kubernetes, whose CEL library the CRDs need
	maxSkew  = 5 * time.Second
	maxLease = time.Minute
)

// The label and the annotation that Helm adds to the objects of a Helm release.
const (
	labelManagedBy        = "app.kubernetes.io/managed-by"
	annotationHelmRelease = "meta.helm.sh/release-name"
)

// installAgain returns the fix for an incomplete installation. The fix uses Helm if the Deployment of the manager is part of a Helm
// release. If the Deployment does not exist or cannot be read, the fix uses Helm if the CRD of Microservices is part of a Helm
// release, because CRDs remain after "helm uninstall". installAgain ignores errors, because the checks of these objects report them.
func (d *doctor) installAgain(ctx context.Context) string {
	manager := &appsv1.Deployment{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: d.manager, Name: "heighliner"}, manager)
	if name := helmRelease(manager); err == nil && name != "" {
		return fmt.Sprintf("upgrade the Helm release %s again, with its current values and chart version: helm upgrade", name)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if d.client.Get(ctx, client.ObjectKey{Name: "microservices." + v1alpha1.GroupVersion.Group}, crd) == nil && helmRelease(crd) != "" && err != nil {
		return fmt.Sprintf("install the chart again, as the Helm release %s, which installed the CRDs: helm upgrade --install", helmRelease(crd))
	}
	return "apply the overlay of the installation again: kubectl apply -k"
}

// helmRelease returns the name of the Helm release that contains an object, or an empty string.
func helmRelease(o client.Object) string {
	if o.GetLabels()[labelManagedBy] != "Helm" {
		return ""
	}
	return cleanText(o.GetAnnotations()[annotationHelmRelease])
}

// checkServer checks the version of Kubernetes and the clock. It returns an error if the API server cannot be reached or rejects the
// credentials.
func (d *doctor) checkServer(ctx context.Context) error {
	config, err := d.Config()
	if err != nil {
		return err
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return err
	}
	before := d.Now()
	response, err := transport.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	after := d.Now()
	if response.StatusCode == http.StatusUnauthorized {
		return apierrors.NewUnauthorized("the API server rejected the credentials")
	}
	var info version.Info
	if err := json.NewDecoder(response.Body).Decode(&info); response.StatusCode != http.StatusOK || err != nil {
		d.add(Unknown, "Kubernetes", "", "the version cannot be read: %s", response.Status)
	} else if level, fix := judgeVersion(info); true {
		d.add(level, "Kubernetes", fix, "%s", info.GitVersion)
	}
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		d.add(Unknown, "Clock", "", "the API server does not send its time")
		return nil
	}
	// The time in the header is in whole seconds, and the request took some time.
	skew := max(before.Sub(at.Add(time.Second)), at.Sub(after), 0)
	if skew > maxSkew {
		d.add(Warning, "Clock", "synchronize the clock of this machine or of the API server (NTP)", "the clocks of this machine and the API server differ by %s: times such as --until are off by this difference", skew.Round(time.Second))
		return nil
	}
	d.add(OK, "Clock", "", "the clocks of this machine and the API server agree")
	return nil
}

// judgeVersion checks the version of Kubernetes.
func judgeVersion(info version.Info) (Level, string) {
	var major, minor int
	if _, err := fmt.Sscanf(info.Major+" "+strings.TrimRight(info.Minor, "+"), "%d %d", &major, &minor); err != nil {
		return Unknown, ""
	}
	if major == 1 && minor < minMinor {
		return Problem, fmt.Sprintf("upgrade to Kubernetes 1.%d or later: older API servers reject the CRDs", minMinor)
	}
	return OK, ""
}

// checkDefinitions compares the CRDs in the cluster with the CRDs that are embedded in this program.
func (d *doctor) checkDefinitions(ctx context.Context) {
	bad := false
	for _, kind := range manifest.Kinds() {
		want, err := manifest.Definition(kind)
		if err != nil {
			d.unknown("CRDs", "the CRD of "+kind+" in this program", err)
			continue
		}
		var have apiextensionsv1.CustomResourceDefinition
		err = d.client.Get(ctx, client.ObjectKey{Name: want.Name}, &have)
		switch {
		case apierrors.IsNotFound(err):
			d.add(Problem, "CRDs", d.install, "%s is not installed", want.Name)
		case err != nil:
			d.unknown("CRDs", want.Name, err)
		default:
			level, text, fix := judgeDefinition(want, &have, d.Version, d.install)
			if level != OK {
				d.add(level, "CRDs", fix, "%s", text)
			}
			bad = bad || level != OK
			continue
		}
		bad = true
	}
	if !bad {
		d.add(OK, "CRDs", "", "%d match hlnr %s", len(manifest.Kinds()), d.Version)
	}
}

// judgeDefinition compares a CRD with the embedded CRD. install is the fix for an incomplete installation.
func judgeDefinition(want, have *apiextensionsv1.CustomResourceDefinition, program, install string) (level Level, text, fix string) {
	established := slices.ContainsFunc(have.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return Problem, have.Name + " is not established", "kubectl describe crd " + have.Name
	}
	at := slices.IndexFunc(have.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	if at < 0 {
		return Problem, fmt.Sprintf("%s does not serve %s", have.Name, v1alpha1.GroupVersion.Version), install
	}
	x, y := want.Spec.Versions[0].Schema, have.Spec.Versions[at].Schema
	if y == nil || !sameSchema(x, y) {
		return Warning, fmt.Sprintf("%s does not match hlnr %s", have.Name, program), "upgrade hlnr or the installation, so that both have the same version: until then, the results of lint and plan might be wrong"
	}
	return OK, "", ""
}

// sameSchema reports whether two schemas have the same JSON, which is the form that the API server stores.
func sameSchema(x, y *apiextensionsv1.CustomResourceValidation) bool {
	var decoded [2]any
	for i, s := range []*apiextensionsv1.CustomResourceValidation{x, y} {
		raw, err := json.Marshal(s)
		if err != nil || json.Unmarshal(raw, &decoded[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(decoded[0], decoded[1])
}

// checkRights checks which permissions the user has. A missing permission is not a problem.
func (d *doctor) checkRights(ctx context.Context) {
	var may, not []string
	for _, r := range []struct{ verb, plural, what string }{
		{"list", "microservices", "see releases"},
		{"patch", "microservices", "pin and pause"},
		{"patch", "versionedmicroservices", "decide"},
		{"patch", "imagepolicies", "scan"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: d.namespace, Verb: r.verb, Group: v1alpha1.GroupVersion.Group, Resource: r.plural,
		}}}
		if err := d.client.Create(ctx, review); err != nil {
			d.unknown("Permissions", "your permissions", err)
			return
		}
		if review.Status.Allowed {
			may = append(may, r.what)
		} else {
			not = append(not, cli.Forbidden(cli.Permission{Verb: r.verb, Resource: r.plural + "." + v1alpha1.GroupVersion.Group, Namespace: d.namespace}))
		}
	}
	if len(may) > 0 {
		d.add(OK, "Permissions", "", "you may %s", strings.Join(may, ", "))
	}
	for _, n := range not {
		d.add(Unknown, "Permissions", "", "%s", n)
	}
}

// checkAdmission checks that the admission policies exist and are enforced.
func (d *doctor) checkAdmission(ctx context.Context) {
	without := map[string]string{
		"clusterfreeze-selectors.hlnr.io": "a user who may edit a Microservice can exclude it from a ClusterFreeze by changing its labels",
		"freeze-selectors.hlnr.io":        "a user who may edit a Microservice can exclude it from a Freeze by changing its labels",
		"decisions.hlnr.io":               "any user who may patch a release can change all its fields, and can omit the author of a decision or name another user as the author",
		"domains.hlnr.io":                 "the list of domains is not enforced",
		"freezes.hlnr.io":                 "any user who may write a freeze can omit its author or name another user as its author",
		"pins.hlnr.io":                    "any user who may set a pin can name another user as its author",
	}
	for _, name := range slices.Sorted(maps.Keys(without)) {
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		err := d.client.Get(ctx, client.ObjectKey{Name: name}, &policy)
		if err == nil {
			err = d.client.Get(ctx, client.ObjectKey{Name: name}, &binding)
		}
		switch {
		case apierrors.IsNotFound(err):
			d.add(Problem, "Admission", d.install, "the ValidatingAdmissionPolicy %s or its binding is not installed: %s", name, without[name])
		case err != nil:
			d.unknown("Admission", "the ValidatingAdmissionPolicy "+name, err)
		case !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny):
			d.add(Problem, "Admission", d.install, "the binding %s does not deny requests: %s", name, without[name])
		default:
			d.add(OK, "Admission", "", "%s is enforced", name)
		}
	}
}

// checkManager checks that the manager is running, and reports the Prometheus server that the manager uses.
func (d *doctor) checkManager(ctx context.Context) {
	var list appsv1.DeploymentList
	if err := d.client.List(ctx, &list, client.InNamespace(d.manager)); err != nil {
		d.unknown("Manager", "Deployments in namespace "+d.manager, err)
		return
	}
	at := slices.IndexFunc(list.Items, func(x appsv1.Deployment) bool { return x.Name == "heighliner" })
	if at < 0 {
		d.add(Problem, "Manager", d.install+", or set the namespace of the manager with --manager-namespace", "there is no Deployment heighliner in namespace %s", d.manager)
		return
	}
	m := &list.Items[at]
	want := int32(1)
	if m.Spec.Replicas != nil {
		want = *m.Spec.Replicas
	}
	switch {
	case want == 0:
		d.add(Problem, "Manager", fmt.Sprintf("kubectl -n %s scale deployment/heighliner --replicas=1", d.manager), "the manager is scaled to 0 replicas: nothing is reconciled")
	case m.Status.ReadyReplicas == 0:
		d.add(Problem, "Manager", fmt.Sprintf("kubectl -n %s describe pods; kubectl -n %s logs deployment/heighliner", d.manager, d.manager), "0 of %d ready", want)
	default:
		d.add(OK, "Manager", "", "%d of %d ready", m.Status.ReadyReplicas, want)
	}
	for _, names := range arguments(m, "namespace") {
		d.watched = append(d.watched, strings.Split(names, ",")...)
	}
	d.checkWatched(ctx, m)
	if shards, err := strconv.Atoi(argument(m, "shards")); err == nil && shards > 0 {
		d.checkShards(ctx, min(shards, shard.Max))
	} else {
		d.checkLeader(ctx)
	}
	address := cleanText(argument(m, "prometheus-address"))
	if address == "" {
		d.add(OK, "Prometheus", "", "the manager has no default server: each analysis must set its own")
		return
	}
	d.add(OK, "Prometheus", "", "the manager queries %s", address)
}

// checkWatched checks that the manager has the permissions that it needs in the cluster, and in the namespaces that it should watch. The
// manager watches a namespace only if it is allowed to list and watch all kinds there. There is no finding if the user is not allowed to
// create SubjectAccessReviews.
func (d *doctor) checkWatched(ctx context.Context, m *appsv1.Deployment) {
	missing, _, err := d.lacking(ctx, m, "", watches.ClusterKinds())
	if err == nil && len(d.watched) == 0 {
		var everywhere []string
		everywhere, _, err = d.lacking(ctx, m, "", watches.Kinds())
		missing = append(missing, everywhere...)
	}
	if err != nil {
		return
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		d.add(Problem, "Manager", d.install+"; this restores the ClusterRole heighliner-manager",
			"the manager cannot list and watch %s in the cluster: no controller starts", strings.Join(missing, ", "))
	}
	for _, namespace := range d.watched {
		if d.namespace != "" && d.namespace != namespace {
			continue
		}
		missing, all, err := d.lacking(ctx, m, namespace, watches.Kinds())
		switch {
		case err != nil:
			return
		case all:
			d.add(Problem, "Manager", fmt.Sprintf("run kubectl create namespace %s if the namespace does not exist; then %s; this restores the RoleBinding heighliner-manager", namespace, d.install),
				"the manager is configured to watch namespace %s, but has no permissions in it, and does not reconcile its objects", namespace)
		case len(missing) > 0:
			d.add(Problem, "Manager", d.install+"; this restores the Role heighliner-manager",
				"the manager is configured to watch namespace %s, but cannot list and watch %s in it: a manager that was started without this permission does not reconcile the objects in the namespace", namespace, strings.Join(missing, ", "))
		}
	}
}

// lacking returns the kinds that the manager is not allowed to list and watch in a namespace, and whether these are all of the given kinds.
// The kinds parameter maps API groups to resources. An empty namespace means the cluster.
func (d *doctor) lacking(ctx context.Context, m *appsv1.Deployment, namespace string, kinds map[string][]string) (missing []string, all bool, err error) {
	all = true
	for group, resources := range kinds {
		for _, resource := range resources {
			for _, verb := range watches.Verbs() {
				allowed, err := d.managerMay(ctx, m, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource})
				if err != nil {
					return nil, false, err
				}
				if !allowed {
					missing = append(missing, watches.Name(group, resource))
					break
				}
				all = false
			}
		}
	}
	slices.Sort(missing)
	return missing, all, nil
}

// managerMay reports whether the service account of the manager has a permission.
func (d *doctor) managerMay(ctx context.Context, m *appsv1.Deployment, right authorizationv1.ResourceAttributes) (bool, error) {
	account := cmp.Or(m.Spec.Template.Spec.ServiceAccountName, "default")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: fmt.Sprintf("system:serviceaccount:%s:%s", m.Namespace, account), Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + m.Namespace, "system:authenticated"},
		ResourceAttributes: &right,
	}}
	err := d.client.Create(ctx, review)
	return review.Status.Allowed, err
}

// argument returns the last value of a flag of the manager, or an empty string if the flag is not set.
func argument(manager *appsv1.Deployment, flag string) string {
	values := arguments(manager, flag)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// arguments returns all values of a flag of the manager.
func arguments(manager *appsv1.Deployment, flag string) (values []string) {
	for _, c := range manager.Spec.Template.Spec.Containers {
		for _, arg := range c.Args {
			if given, is := strings.CutPrefix(arg, "--"+flag+"="); is {
				values = append(values, given)
			}
		}
	}
	return values
}

// checkLeader checks that a manager holds the leader election Lease.
func (d *doctor) checkLeader(ctx context.Context) {
	var lease coordinationv1.Lease
	err := d.client.Get(ctx, client.ObjectKey{Namespace: d.manager, Name: "manager.hlnr.io"}, &lease)
	switch {
	case apierrors.IsNotFound(err): // The manager runs without leader election.
	case err != nil:
		d.unknown("Manager", "the Lease manager.hlnr.io", err)
	case d.unheld(&lease) != "":
		d.add(Problem, "Manager", fmt.Sprintf("kubectl -n %s logs deployment/heighliner", d.manager), "no manager is the leader: the Lease manager.hlnr.io %s", d.unheld(&lease))
	default:
		since := ""
		if t := lease.Spec.AcquireTime; t != nil {
			since = " (elected " + d.Now().Sub(t.Time).Round(time.Second).String() + " ago)"
		}
		d.add(OK, "Manager", "", "the manager is the leader%s", since)
	}
}

// unheld returns the reason why a Lease has no valid holder, or an empty string if the Lease has a
// valid holder.
func (d *doctor) unheld(lease *coordinationv1.Lease) string {
	switch {
	case ptr.Deref(lease.Spec.HolderIdentity, "") == "":
		return "was released"
	case lease.Spec.RenewTime == nil || d.Now().Sub(lease.Spec.RenewTime.Time) > maxLease:
		return "is not renewed"
	}
	return ""
}

// checkShards checks that a manager holds the Lease of each shard.
func (d *doctor) checkShards(ctx context.Context, shards int) {
	holders, held := map[string]bool{}, 0
	for i := range shards {
		name, reason := shard.LeaseName(i), ""
		var lease coordinationv1.Lease
		err := d.client.Get(ctx, client.ObjectKey{Namespace: d.manager, Name: name}, &lease)
		switch {
		case apierrors.IsNotFound(err):
			reason = "does not exist"
		case err != nil:
			d.unknown("Manager", "the Lease "+name, err)
			continue
		default:
			reason = d.unheld(&lease)
		}
		if reason != "" {
			d.add(Problem, "Manager", fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=heighliner --prefix", d.manager),
				"no manager reconciles the namespaces of shard %d: the Lease %s %s", i, name, reason)
			continue
		}
		held++
		holders[*lease.Spec.HolderIdentity] = true
	}
	if held > 0 {
		d.add(OK, "Manager", "", "managers that hold shard Leases: %d; held shards: %d of %d", len(holders), held, shards)
	}
}

// checkGatewayKinds reports which kinds of the Gateway API exist.
func (d *doctor) checkGatewayKinds(ctx context.Context) {
	var there []string
	for _, name := range []string{"gateways", "httproutes", "grpcroutes", "tcproutes", "tlsroutes", "udproutes", "listenersets"} {
		var crd apiextensionsv1.CustomResourceDefinition
		err := d.client.Get(ctx, client.ObjectKey{Name: name + ".gateway.networking.k8s.io"}, &crd)
		switch {
		case err == nil:
			there = append(there, crd.Spec.Names.Kind)
		case !apierrors.IsNotFound(err):
			d.unknown("Gateway API", "CRDs of the Gateway API", err)
			return
		}
	}
	if len(there) == 0 {
		d.add(OK, "Gateway API", "", "not installed: NetworkPolicies can use Ingresses, APISIX or routes that you manage")
		return
	}
	d.add(OK, "Gateway API", "", "%s", strings.Join(there, ", "))
}
