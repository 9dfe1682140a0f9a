package analysis

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// tolerance is the maximum difference between the requested time and the timestamp of the returned value. It is not 0, because some servers
// return the value for a slightly earlier time.
const tolerance = time.Minute

// askPrometheus sends an instant query, or a range query if the metric uses samples.
func askPrometheus(ctx context.Context, client *http.Client, q query) answer {
	server, err := api.NewClient(api.Config{Address: q.address, Client: client})
	if err != nil {
		return answer{err: errorf(BadQuery, "prometheus.address: %v", err)}
	}
	at := time.Unix(0, q.at).UTC()
	if q.step > 0 {
		return askSamples(ctx, promv1.NewAPI(server), q, at)
	}
	result, _, _, err := promv1.NewAPI(server).Query(ctx, q.text, at)
	if err != nil {
		return answer{err: classify(err)}
	}
	a := decode(result, at)
	if q.latency && a.err == nil && a.value < 0 {
		a.value, a.atLeast = -a.value, true
	}
	return a
}

// decode returns the single number in a result.
func decode(result model.Value, at time.Time) answer {
	switch v := result.(type) {
	case *model.Scalar:
		if v == nil {
			break
		}
		return dated(float64(v.Value), v.Timestamp, at)
	case model.Vector:
		switch len(v) {
		case 0:
			return answer{noTraffic: true}
		case 1:
			if v[0] == nil {
				break
			}
			if v[0].Histogram != nil {
				return answer{err: isHistogram()}
			}
			return dated(float64(v[0].Value), v[0].Timestamp, at)
		default:
			return answer{err: severalSeries(len(v))}
		}
	case model.Matrix:
		return answer{err: errorf(WrongType, "the response is a range vector: put rate(), increase() or another function around the query")}
	}
	return answer{err: errorf(BadAnswer, "the response has no numeric result")}
}

func severalSeries(n int) *Error {
	return errorf(SeveralSeries, "the response has %d series: put sum(), max() or another aggregation around the query", n)
}

func isHistogram() *Error {
	return errorf(WrongType, "the response is a histogram: put histogram_quantile(), histogram_sum() or histogram_count() around the query")
}

func dated(v float64, stamp model.Time, at time.Time) answer {
	if apart := stamp.Time().Sub(at).Abs(); apart > tolerance {
		return answer{err: errorf(WrongTime, "the response is for %s instead of %s", stamp.Time().UTC().Format(time.RFC3339), at.Format(time.RFC3339))}
	}
	return number(v)
}
