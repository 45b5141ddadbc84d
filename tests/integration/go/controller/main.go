// A controller of the controller-runtime kind: leader election, caches, an owned object, a status condition, a finalizer. It makes a Secret for
// every labelled ConfigMap and says "ok" when everything it expects has happened.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	finalizer = "oarlock.dev/controller"
	// For each of the waits, which are for one thing; it bounds a hang.
	patience = 2 * time.Minute
)

type reconciler struct{ client.Client }

// Reconcile keeps a Secret with the ConfigMap's value, owned by it, and lets a deleted ConfigMap go once it has noted so elsewhere.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() {
		note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gone-" + config.Name, Namespace: config.Namespace}}
		if err := r.Create(ctx, note); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(config, finalizer)
		return ctrl.Result{}, r.Update(ctx, config)
	}
	if controllerutil.AddFinalizer(config, finalizer) {
		return ctrl.Result{}, r.Update(ctx, config)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: config.Name, Namespace: config.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		secret.StringData = map[string]string{"value": config.Data["value"]}
		return controllerutil.SetControllerReference(config, secret, r.Scheme())
	})
	return ctrl.Result{}, err
}

func start(ctx context.Context) (client.Client, error) {
	managed := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{"default": {}}},
		&corev1.Secret{}:    {Namespaces: map[string]cache.Config{"default": {}}},
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Cache:                   cache.Options{ByObject: managed},
		LeaderElection:          true,
		LeaderElectionID:        "controller.oarlock.dev",
		LeaderElectionNamespace: "default",
		Metrics:                 server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	watched := &reconciler{manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(watched); err != nil {
		return nil, err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			fail(err)
		}
	}()
	// What is checked is read past the cache.
	return client.New(ctrl.GetConfigOrDie(), client.Options{})
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	log.SetLogger(zap.New())
	ctx, stop := context.WithCancel(ctrl.SetupSignalHandler())
	defer stop()
	direct, err := start(ctx)
	if err != nil {
		fail(err)
	}
	if err := story(ctx, direct); err != nil {
		fail(err)
	}
	fmt.Println("ok")
}

func story(ctx context.Context, direct client.Client) error {
	key := client.ObjectKey{Namespace: "default", Name: "watched"}
	until := func(what string, right func() (bool, error)) error {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			return right()
		})
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	holds := func(value string) func() (bool, error) {
		return func() (bool, error) {
			secret := &corev1.Secret{}
			err := direct.Get(ctx, key, secret)
			return err == nil && string(secret.Data["value"]) == value, client.IgnoreNotFound(err)
		}
	}
	gone := func(object client.Object) func() (bool, error) {
		return func() (bool, error) {
			err := direct.Get(ctx, key, object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}, Data: map[string]string{"value": "one"}}
	if err := direct.Create(ctx, config); err != nil {
		return err
	}
	if err := until("a secret is made", holds("one")); err != nil {
		return err
	}
	patch := client.MergeFrom(config.DeepCopy())
	config.Data["value"] = "two"
	if err := direct.Patch(ctx, config, patch); err != nil {
		return err
	}
	if err := until("the secret follows", holds("two")); err != nil {
		return err
	}
	// Somebody deletes the owned object: its owner is looked at again.
	if err := direct.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}); err != nil {
		return err
	}
	if err := until("the secret is made again", holds("two")); err != nil {
		return err
	}
	if err := direct.Delete(ctx, config); err != nil {
		return err
	}
	if err := until("the finalizer lets it go", gone(&corev1.ConfigMap{})); err != nil {
		return err
	}
	if err := until("the garbage collector takes the secret", gone(&corev1.Secret{})); err != nil {
		return err
	}
	note := &corev1.ConfigMap{}
	return direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "gone-watched"}, note)
}
