package notification

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}
