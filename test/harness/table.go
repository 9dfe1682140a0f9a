package harness

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// WriteTable writes the numbers of sent, answered, and failed requests of each report, for each phase with
// requests and in total. Below each row, it writes the versions that answered, with their shares and
// latencies. At the end, it writes the failures with details.
func WriteTable(out io.Writer, reports ...Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tPHASE\tVERSION\tSENT\tANSWERED\tFAILED\tSHARE\tP50\tP99\tMAX")
	for _, report := range reports {
		host := report.Host
		for _, phase := range append(slices.Clone(report.Phases), report.Total) {
			if phase.Sent == 0 && phase.Name != report.Total.Name {
				continue
			}
			writePhase(table, host, phase)
			host = "" // The host is only in the first row.
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for _, report := range reports {
		if err := writeFailures(out, report); err != nil {
			return fmt.Errorf("write failures: %w", err)
		}
	}
	return nil
}

func writePhase(table io.Writer, host string, phase Phase) {
	fmt.Fprintf(table, "%s\t%s\t\t%d\t%d\t%d\t\t%s\n", host, phase.Name, phase.Sent, phase.Answered, phase.Failed, columns(phase.Latency, phase.Answered))
	shares := map[string]string{}
	split := phase.Split()
	for i, percent := range split.Percents() {
		shares[split[i].Version] = strconv.Itoa(percent) + "%"
	}
	for _, version := range slices.SortedFunc(maps.Keys(phase.Versions), compareVersions) {
		counts := phase.Versions[version]
		fmt.Fprintf(table, "\t\t%s\t\t%d\t%d\t%s\t%s\n", cmp.Or(version, "no version"), counts.Answered, counts.Failed,
			cmp.Or(shares[version], "0%"), columns(phase.VersionLatency[version], counts.Answered))
	}
}

func columns(latency Latency, answered int) string {
	if answered == 0 {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%s\t%s\t%s", milliseconds(latency.P50), milliseconds(latency.P99), milliseconds(latency.Max))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
}

func writeFailures(out io.Writer, report Report) error {
	if len(report.Failures)+report.FailuresOmitted == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "\nFailed requests to %s:\n", report.Host); err != nil {
		return err
	}
	for _, failure := range report.Failures {
		version := cmp.Or(failure.Version, "no version")
		if _, err := fmt.Fprintf(out, "  %s  %s  %s  after %s: %s\n", failure.At.UTC().Format("15:04:05.000"), failure.Phase, version,
			milliseconds(failure.Took), failure.Failure); err != nil {
			return err
		}
	}
	if report.FailuresOmitted == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "  and %d more\n", report.FailuresOmitted)
	return err
}
