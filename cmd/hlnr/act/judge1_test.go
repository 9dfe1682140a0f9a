package act

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestJudge1ScanThatFailed: hlnr scan reports "scanned, 3 offered, latest 1.2.0" after a scan that could not read the registry.
func TestJudge1ScanThatFailed(t *testing.T) {
	p := &v1alpha1.ImagePolicy{}
	p.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "mine"}
	p.Status.LastHandledRequest, p.Status.Latest, p.Status.Offered = "mine", "1.2.0", "3 in 1 group"
	p.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "SourceUnreachable", Message: "registry.example.com: connection refused"},
		{Type: "SourceReachable", Status: "False", Reason: "SourceUnreachable", Message: "registry.example.com: connection refused"},
	}
	if handled, text := scanned(p, "mine"); !handled || !strings.Contains(text, "connection refused") {
		t.Errorf("a scan that did not reach the registry is reported as %q", text)
	}
}

// TestJudge1ScanOfASuspendedRepository: a suspended GitHubRepository is never polled; the command waits for its timeout and refers to doctor.
func TestJudge1ScanOfASuspendedRepository(t *testing.T) {
	t.Parallel()
	p := shop(t)
	r := &v1alpha1.GitHubRepository{}
	r.Namespace, r.Name = p.namespace, "shop"
	r.Spec.Owner, r.Spec.Repo, r.Spec.Suspend = "acme", "shop", true
	if err := p.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	p.want(cli.ExitNo, "is suspended", "scan", "githubrepository/shop", "--timeout", "200ms")
}
