package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// groups are the groups of tests, by name. "make e2e GROUP=name" runs only the tests of one group. Each test is in
// exactly one group.
var groups = map[string][]string{
	// How versions become releases, and why releases wait.
	"releases": {
		"TestSmallestUseful", "TestZeroFailedRequests", "TestBadInput", "TestSignedImage", "TestAutoscaling", "TestTogether", "TestWindow", "TestHooks",
		"TestConfigurationRollback", "TestSecretRollback", "TestSecretsByNamespace",
		"TestFullClusterWaitsForTheNewest", "TestQuotaWaitsForTheNewest", "TestWebhookThatIsDownWaitsForTheNewest",
	},
	// Measurements that decide the outcome of a canary.
	"analysis": {"TestAnalysis", "TestAnalysisNoTraffic", "TestAnalysisSurvivesRestarts", "TestAnalysisBaseline"},
	// Metrics from other sources, and analyses that services share.
	"metrics": {"TestAnalysisWeb", "TestSharedAnalysis"},
	// Weights, matches, protocols, and providers.
	"traffic": {
		"TestSplit", "TestMatch", "TestTraffic", "TestTLS", "TestProbe", "TestProviders", "TestRouteRef", "TestNewerGroup", "TestDraining", "TestBrokenActive",
		"TestAnnotationsSplit", "TestAnnotationsMatch", "TestAnnotationsSwitch", "TestAdoption",
	},
	// Pull requests.
	"previews": {"TestPreviews", "TestPreviewDatabases"},
	// Workers that take jobs from a queue and get no requests.
	"workers": {"TestWorkers", "TestExclusiveWorkers"},
	// CronJobs that run the active release.
	"followers": {"TestFollowers"},
	// Hooks that run Jobs.
	"jobs": {"TestJobs"},
	// Freezes of a namespace.
	"freeze": {"TestFreeze"},
	// User actions with hlnr.
	"terminal": {"TestTerminal"},
	// An upgrade from another version of Heighliner, and a downgrade.
	"upgrade": {"TestUpgrade"},
	// Messages about rollouts.
	"notify": {"TestNotifications"},
	// The board in the cluster.
	"board": {"TestBoard"},
	// Killed and missing parts, and manually deleted objects.
	"faults": {"TestFaultsMidCanary", "TestCanaryPodsKilled", "TestDeletedByHand", "TestDemoSurvivesKills", "TestPreviewsSurviveKills", "TestManagerAway", "TestUninstall"},
	// Durations, and numbers of writes.
	"measurements": {"TestLatencies", "TestSteadyState", "TestWeightLatency"},
}

// pattern returns the value of the -run flag for a group.
func pattern(group string) (string, error) {
	tests, ok := groups[group]
	if !ok {
		return "", fmt.Errorf("unknown group %q: choose one of %s", group, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	}
	return "^(" + strings.Join(tests, "|") + ")$", nil
}
