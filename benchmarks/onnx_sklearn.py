"""Compares models of scikit-learn in ggml.onnx with onnxruntime: one row and 10,000 rows.

Each library has a process of its own, because a pool of threads that spins would slow the other one. They run the
models alternately.

    pip install '.[onnx]' onnxruntime skl2onnx scikit-learn onnxmltools lightgbm xgboost catboost
    python benchmarks/onnx_sklearn.py --threads 1 2
"""

import argparse
import contextlib
import functools
import itertools
import json
import math
import pickle
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx_models import REST, Server, runner, timed

SAMPLES, FEATURES, MANY, FEW = 10000, 20, 2000, 200  # MANY or FEW samples are trained on
WORDS = (
    "the one cat dog bird tree house sat ran flew on under over mat road sky red green blue old young and or".split()
)


def operands():
    """What models are trained on and compute, by name: rows of features, classes and values of the rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) + (x[:, 3] > 1)
    names = np.array(["red", "green", "blue"], object)
    holes = np.where(rng.random(x.shape) < 0.1, np.nan, x).astype(np.float32)
    return {
        "floats": x,
        "doubles": x.astype(np.float64),
        "positive": np.abs(x),
        "counts": rng.poisson(2, x.shape).astype(np.float32),
        "whole": rng.integers(0, 4, x.shape),
        "holes": holes,
        "categories": names[rng.integers(0, 3, (SAMPLES, 4))],
        "labels": names[y],
        "sentences": np.array([" ".join(rng.choice(WORDS, 8)) for _ in range(SAMPLES)], object),
        "classes": y,
        "two": y > 0,
        "both": np.stack([y, y[::-1]], 1),
        "values": (x[:, 0] + x[:, 1] * x[:, 2]).astype(np.float32),
        "amounts": np.exp(x[:, 0] / 2).astype(np.float32),
        "pairs": np.stack([x[:, 0], x[:, 1] * x[:, 2]], 1),
    }


def kinds():
    """Tuples of a name, an estimator that is not trained yet, the name of its operand, and that of its target."""
    from sklearn import (
        calibration,
        cluster,
        compose,
        cross_decomposition,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_extraction,
        feature_selection,
        gaussian_process,
        impute,
        linear_model,
        mixture,
        model_selection,
        multiclass,
        multioutput,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        random_projection,
        svm,
        tree,
    )

    pipe, seed = pipeline.make_pipeline, {"random_state": 0}
    shallow, logistic, bayes = {"max_depth": 6, **seed}, linear_model.LogisticRegression, naive_bayes.GaussianNB
    text = feature_extraction.text
    yield "decision tree", tree.DecisionTreeClassifier(**shallow), "floats", "classes"
    yield "decision tree, doubles", tree.DecisionTreeClassifier(**shallow), "doubles", "classes"
    yield "decision tree, labels of text", tree.DecisionTreeClassifier(**shallow), "floats", "labels"
    yield "decision tree, ZipMap", tree.DecisionTreeClassifier(**shallow), "floats", "classes"
    yield "decision tree, regression", tree.DecisionTreeRegressor(**shallow), "floats", "values"
    yield "decision tree, two values", tree.DecisionTreeRegressor(**shallow), "floats", "pairs"
    yield "extra tree", tree.ExtraTreeClassifier(**shallow), "floats", "classes"
    yield "extra tree, regression", tree.ExtraTreeRegressor(**shallow), "floats", "values"
    yield "random forest, 100 trees", ensemble.RandomForestClassifier(100, **seed), "floats", "classes"
    yield "random forest, doubles", ensemble.RandomForestClassifier(20, **shallow), "doubles", "classes"
    yield "random forest, labels of text", ensemble.RandomForestClassifier(20, **shallow), "floats", "labels"
    yield "random forest, ZipMap", ensemble.RandomForestClassifier(20, **shallow), "floats", "classes"
    yield "random forest, regression", ensemble.RandomForestRegressor(20, **seed), "floats", "values"
    yield "extra trees", ensemble.ExtraTreesClassifier(20, **seed), "floats", "classes"
    yield "extra trees, regression", ensemble.ExtraTreesRegressor(20, **seed), "floats", "values"
    yield "gradient boosting", ensemble.GradientBoostingClassifier(n_estimators=30, **seed), "floats", "classes"
    yield "gradient boosting, 100 trees", ensemble.GradientBoostingRegressor(**seed), "floats", "values"
    yield "AdaBoost, 20 trees", ensemble.AdaBoostClassifier(n_estimators=20, **seed), "floats", "classes"
    yield "AdaBoost, regression", ensemble.AdaBoostRegressor(n_estimators=20, **seed), "floats", "values"
    yield "bagging of 5 trees", ensemble.BaggingClassifier(n_estimators=5, **seed), "floats", "classes"
    yield "bagging, regression", ensemble.BaggingRegressor(n_estimators=5, **seed), "floats", "values"
    yield "isolation forest, 20 trees", ensemble.IsolationForest(n_estimators=20, **seed), "floats", None
    yield (
        "embedding by trees",
        ensemble.RandomTreesEmbedding(5, max_depth=3, sparse_output=False, **seed),
        "floats",
        None,
    )
    several = [("a", logistic()), ("b", bayes()), ("c", tree.DecisionTreeClassifier(**shallow))]
    yield (
        "voting, probabilities",
        ensemble.VotingClassifier(several, voting="soft", flatten_transform=False),
        "floats",
        "classes",
    )
    yield "voting, classes", ensemble.VotingClassifier(several, flatten_transform=False), "floats", "classes"
    yield "stacking", ensemble.StackingClassifier(several), "floats", "classes"
    several = [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(**shallow))]
    yield "voting, regression", ensemble.VotingRegressor(several), "floats", "values"
    yield "stacking, regression", ensemble.StackingRegressor(several), "floats", "values"

    yield "logistic regression", logistic(), "floats", "classes"
    yield "logistic regression, two classes", logistic(), "floats", "two"
    yield "logistic regression, doubles", logistic(), "doubles", "classes"
    yield "logistic regression, integers", logistic(), "whole", "classes"
    yield "logistic regression, labels of text", logistic(), "floats", "labels"
    yield "logistic regression, ZipMap", logistic(), "floats", "classes"
    yield "logistic regression, text, ZipMap", logistic(), "floats", "labels"
    yield "scaled logistic regression", pipe(preprocessing.StandardScaler(), logistic()), "floats", "classes"
    yield "gradient descent", linear_model.SGDClassifier(**seed), "floats", "classes"
    yield "gradient descent, log loss", linear_model.SGDClassifier("log_loss", **seed), "floats", "classes"
    yield "gradient descent, modified huber", linear_model.SGDClassifier("modified_huber", **seed), "floats", "classes"
    yield "gradient descent, two classes", linear_model.SGDClassifier("log_loss", **seed), "floats", "two"
    yield "gradient descent, one class", linear_model.SGDOneClassSVM(**seed), "floats", None
    yield "perceptron", linear_model.Perceptron(**seed), "floats", "classes"
    yield "ridge classifier", linear_model.RidgeClassifier(), "floats", "classes"
    yield "linear support vectors", svm.LinearSVC(**seed), "floats", "classes"
    yield "linear discriminants", discriminant_analysis.LinearDiscriminantAnalysis(), "floats", "classes"
    yield "quadratic discriminants", discriminant_analysis.QuadraticDiscriminantAnalysis(), "floats", "classes"
    yield "linear regression", linear_model.LinearRegression(), "floats", "values"
    yield "linear regression, doubles", linear_model.LinearRegression(), "doubles", "values"
    yield "linear regression, two values", linear_model.LinearRegression(), "floats", "pairs"
    yield "Bayesian ridge", linear_model.BayesianRidge(), "floats", "values"
    yield "Poisson regression", linear_model.PoissonRegressor(), "floats", "amounts"
    yield "gamma regression", linear_model.GammaRegressor(), "floats", "amounts"
    yield "Tweedie regression", linear_model.TweedieRegressor(power=1.5), "floats", "amounts"
    yield "RANSAC", linear_model.RANSACRegressor(**seed), "floats", "values"
    yield "linear support vectors, regression", svm.LinearSVR(**seed), "floats", "values"
    yield "partial least squares", cross_decomposition.PLSRegression(), "floats", "values"

    yield "support vectors", svm.SVC(), "floats", "classes"
    yield "support vectors, polynomials", svm.SVC(kernel="poly"), "floats", "classes"
    yield "support vectors, doubles", svm.SVC(), "doubles", "classes"
    yield "support vectors, probabilities", svm.SVC(probability=True, **seed), "floats", "classes"
    yield "support vectors, labels of text", svm.NuSVC(nu=0.1), "floats", "labels"
    yield "support vectors, regression", svm.SVR(), "floats", "values"
    yield "support vectors, nu regression", svm.NuSVR(kernel="linear"), "floats", "values"
    yield "support vectors, one class", svm.OneClassSVM(nu=0.2), "floats", None
    yield "network of 100 units", neural_network.MLPClassifier(max_iter=50, **seed), "floats", "classes"
    yield "network, regression", neural_network.MLPRegressor(max_iter=50, **seed), "floats", "values"
    kernel = gaussian_process.kernels.RBF(4.0)
    yield (
        "Gaussian process, regression",
        gaussian_process.GaussianProcessRegressor(kernel, **seed),
        "few floats",
        "values",
    )
    yield "neighbours", neighbors.KNeighborsClassifier(), "few floats", "classes"
    yield "neighbours, regression", neighbors.KNeighborsRegressor(), "few floats", "values"
    yield "neighbours, distances", neighbors.NearestNeighbors(radius=None), "few floats", None
    yield "neighbours within a radius", neighbors.RadiusNeighborsRegressor(8.0), "few floats", "values"
    yield "local outliers", neighbors.LocalOutlierFactor(novelty=True), "few floats", None
    yield (
        "neighbourhood components",
        neighbors.NeighborhoodComponentsAnalysis(5, max_iter=3, **seed),
        "few floats",
        "classes",
    )
    yield "naive Bayes", bayes(), "floats", "classes"
    yield "naive Bayes, multinomial", naive_bayes.MultinomialNB(), "counts", "classes"
    yield "naive Bayes, Bernoulli", naive_bayes.BernoulliNB(), "floats", "classes"
    yield "naive Bayes, complement", naive_bayes.ComplementNB(), "counts", "classes"
    yield "naive Bayes, categories", naive_bayes.CategoricalNB(), "whole", "classes"
    yield "Gaussian mixture", mixture.GaussianMixture(4, **seed), "floats", None
    yield "Gaussian mixture, diagonal", mixture.GaussianMixture(4, covariance_type="diag", **seed), "floats", None
    yield "Bayesian mixture", mixture.BayesianGaussianMixture(n_components=4, **seed), "floats", None
    yield "k-means", cluster.KMeans(5, n_init=1, **seed), "floats", None
    yield "k-means of batches", cluster.MiniBatchKMeans(5, n_init=1, **seed), "floats", None
    yield "calibrated", calibration.CalibratedClassifierCV(bayes(), cv=2), "floats", "classes"
    yield (
        "calibrated, isotonic",
        calibration.CalibratedClassifierCV(bayes(), method="isotonic", cv=2),
        "floats",
        "classes",
    )
    yield "one against all", multiclass.OneVsRestClassifier(logistic()), "floats", "classes"
    yield "one against one", multiclass.OneVsOneClassifier(logistic()), "floats", "classes"
    yield "several outputs", multioutput.MultiOutputClassifier(logistic()), "floats", "both"
    yield "several outputs, regression", multioutput.MultiOutputRegressor(linear_model.Ridge()), "floats", "pairs"
    yield "grid search", model_selection.GridSearchCV(logistic(), {"C": [0.1, 1]}), "floats", "classes"

    for name in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "Binarizer"):
        yield name, getattr(preprocessing, name)(), "floats", None
    yield "StandardScaler, doubles", preprocessing.StandardScaler(), "doubles", None
    yield "Normalizer, L1", preprocessing.Normalizer("l1"), "floats", None
    yield "PolynomialFeatures", preprocessing.PolynomialFeatures(2), "floats", None
    yield (
        "PolynomialFeatures, ridge",
        pipe(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
        "floats",
        "values",
    )
    yield "PowerTransformer", preprocessing.PowerTransformer(), "floats", None
    yield "QuantileTransformer", preprocessing.QuantileTransformer(n_quantiles=50), "floats", None
    bins = {"quantile_method": "averaged_inverted_cdf", "subsample": None}
    yield "KBinsDiscretizer", preprocessing.KBinsDiscretizer(encode="ordinal", **bins), "floats", None
    yield "KBinsDiscretizer, one-hot", preprocessing.KBinsDiscretizer(encode="onehot-dense", **bins), "floats", None
    yield "OneHotEncoder, integers", preprocessing.OneHotEncoder(sparse_output=False), "whole", None
    yield "OneHotEncoder, texts", preprocessing.OneHotEncoder(sparse_output=False), "categories", None
    yield "OrdinalEncoder, texts", preprocessing.OrdinalEncoder(), "categories", None
    yield "OrdinalEncoder, integers", preprocessing.OrdinalEncoder(), "whole", None
    yield "TargetEncoder", preprocessing.TargetEncoder(**seed), "whole", "values"
    yield "LabelEncoder", preprocessing.LabelEncoder(), "labels", None
    yield "LabelBinarizer", preprocessing.LabelBinarizer(), "classes", None
    yield "SimpleImputer", impute.SimpleImputer(), "holes", None
    yield "KNNImputer", impute.KNNImputer(n_neighbors=2), "few holes", None
    yield "principal components", decomposition.PCA(5), "floats", None
    yield "principal components, ridge", pipe(decomposition.PCA(5), linear_model.Ridge()), "floats", "values"
    yield "incremental components", decomposition.IncrementalPCA(5), "floats", None
    yield "kernel components", decomposition.KernelPCA(5, kernel="rbf", **seed), "few floats", None
    yield "truncated decomposition", decomposition.TruncatedSVD(5, **seed), "floats", None
    yield "random projection", random_projection.GaussianRandomProjection(5, **seed), "floats", None
    yield "selected columns", feature_selection.SelectKBest(k=8), "floats", "classes"
    yield "selected columns, percentile", feature_selection.SelectPercentile(percentile=30), "floats", "classes"
    yield "selected columns, by a model", feature_selection.SelectFromModel(logistic()), "floats", "classes"
    yield (
        "selected columns, elimination",
        feature_selection.RFE(logistic(), n_features_to_select=8),
        "floats",
        "classes",
    )
    yield "selected columns, variance", feature_selection.VarianceThreshold(0.99), "floats", None
    yield (
        "selected and classified",
        pipe(feature_selection.SelectKBest(k=8), logistic()),
        "floats",
        "classes",
    )
    union = pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(3))
    yield "features together", union, "floats", None
    columns = [("a", preprocessing.MinMaxScaler(), [0, 1, 2]), ("b", preprocessing.StandardScaler(), [*range(3, 20)])]
    yield (
        "columns of two kinds, forest",
        pipe(compose.ColumnTransformer(columns), ensemble.RandomForestClassifier(20, **shallow)),
        "floats",
        "classes",
    )
    yield (
        "imputed, scaled, classified",
        pipe(impute.SimpleImputer(strategy="median"), preprocessing.StandardScaler(), logistic()),
        "holes",
        "classes",
    )
    yield "counts of words", text.CountVectorizer(lowercase=False), "sentences", None
    yield "weighted words", text.TfidfVectorizer(ngram_range=(1, 2), lowercase=False), "sentences", None
    yield "texts classified", pipe(text.TfidfVectorizer(lowercase=False), logistic()), "sentences", "classes"


def boosted():
    """The same for gradient boosting outside of scikit-learn, as far as its packages are there."""
    with contextlib.suppress(ImportError):
        import lightgbm

        settings = {"verbose": -1, "n_estimators": 30}
        yield "LightGBM", lightgbm.LGBMClassifier(**settings), "floats", "classes"
        yield "LightGBM, regression", lightgbm.LGBMRegressor(**settings), "floats", "values"
        yield "LightGBM, missing values", lightgbm.LGBMClassifier(**settings), "holes", "classes"
        categories = {"categorical_feature": [0, 1, 2, 3]}
        yield "LightGBM, categories", lightgbm.LGBMRegressor(**settings, **categories), "counts", "values"
    with contextlib.suppress(ImportError):
        import xgboost

        yield "XGBoost", xgboost.XGBClassifier(n_estimators=30), "floats", "classes"
        yield "XGBoost, regression", xgboost.XGBRegressor(n_estimators=30), "floats", "values"
        yield "XGBoost, missing values", xgboost.XGBClassifier(n_estimators=30), "holes", "classes"
    with contextlib.suppress(ImportError):
        import catboost

        settings = {"verbose": 0, "allow_writing_files": False, "iterations": 30}
        yield "CatBoost", catboost.CatBoostClassifier(**settings), "floats", "classes"
        yield "CatBoost, regression", catboost.CatBoostRegressor(**settings), "floats", "values"


def converted_boosted(model, features):
    """The ModelProto of a model of `boosted`."""
    package = type(model).__module__.partition(".")[0]
    if package == "catboost":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            model.save_model(path, format="onnx")
            return onnx.load(path)
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("x", FloatTensorType([None, features]))]
    if package == "xgboost":
        return convert_xgboost(model, initial_types=types, target_opset=15)
    return convert_lightgbm(model, initial_types=types, zipmap=False, target_opset=15)


def converted(name, model, x, classes):
    """The ModelProto of a trained model; classifiers give arrays unless the name asks for a ZipMap."""
    if not type(model).__module__.startswith("sklearn."):
        return converted_boosted(model, x.shape[1])
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import guess_data_type

    kind = type(guess_data_type(x[:1] if x.ndim == 2 else x[:1, None])[0][1])
    settings = {"initial_types": [("x", kind([None, *x.shape[1:]]))], "target_opset": {"": 18, "ai.onnx.ml": 3}}
    if classes and "ZipMap" not in name:
        with contextlib.suppress(NameError):  # the converter has no such option
            return to_onnx(model, options={"zipmap": False}, **settings)
    return to_onnx(model, **settings)


def prepare(folder, only):
    """Writes the models and their operands into a folder, those that are not there yet; returns the names of all."""
    warnings.simplefilter("ignore")
    arrays, names = operands(), []
    for name, model, operand, target in itertools.chain(kinds(), boosted()):
        if not re.search(only, name):
            continue
        path = Path(folder, f"{name}.onnx")
        if not path.exists():
            n = FEW if operand.startswith("few ") else MANY
            x = arrays[operand.removeprefix("few ")]
            model.fit(x[:n]) if target is None else model.fit(x[:n], arrays[target][:n])
            try:
                proto = converted(name, model, x, target in ("classes", "labels", "two", "both"))
            except Exception as error:  # of a converter that does not know this version of scikit-learn
                print(f"{name} is not converted: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
                continue
            path.with_suffix(".pickle").write_bytes(pickle.dumps((x, model)))
            path.write_bytes(proto.SerializeToString())
        names.append(name)
    return names


def serve(library, threads):
    """Answers the lines of the standard input: a path without its suffix, a number of rows, and the seconds to run.

    An answer is the least time of a call, NaN if the library does not run the model. Where no seconds are asked for,
    the outputs are written to PATH.LIBRARY.
    """
    print(0, flush=True)
    run: Any = None
    for line in sys.stdin:
        path, rows, seconds = json.loads(line)
        try:
            if not seconds:
                with open(f"{path}.pickle", "rb") as file:
                    x = pickle.load(file)[0]
                run = functools.partial(runner(library, f"{path}.onnx", threads), np.resize(x, (rows, *x.shape[1:])))
                outputs = [run() for _ in range(3)][-1]
                Path(f"{path}.{library}").write_bytes(pickle.dumps(outputs))
            print(timed(run, seconds) if run else math.nan, flush=True)
        except Exception as error:
            print(f"{library}, {Path(path).name}: {error}", file=sys.stderr)
            run = None
            print(math.nan, flush=True)


def numbers(outputs):
    """The outputs of a run as arrays: of dicts their values, of sequences the entries."""
    parts = [part for v in outputs for part in (v if isinstance(v, list) and isinstance(v[0], np.ndarray) else [v])]
    return [np.array([[*row.values()] for row in v]) if isinstance(v, list) else np.asarray(v) for v in parts]


def difference(path):
    """How the outputs that two libraries wrote differ.

    Of numbers the largest difference, relative to the largest of them, or to 0.001; of classes and texts the share that
    differs.
    """
    files = [Path(f"{path}.{k}") for k in ("ours", "onnxruntime")]
    if not all(f.exists() for f in files):
        return 0.0
    found = [0.0]
    for a, b in zip(*(numbers(pickle.loads(f.read_bytes())) for f in files), strict=True):
        a, b = a.ravel(), b.ravel()
        if b.dtype.kind == "f":
            found.append(float(np.nanmax(np.abs(a.astype(float) - b)) / max(np.nanmax(np.abs(b)), 1e-3)))
        else:
            found.append(float((a != b).mean()))
    return max(found)


def measured(path, rows, servers, args):
    """The best time of each server, and the difference of the outputs."""
    best = dict.fromkeys(servers, math.inf)
    for library in servers:
        Path(f"{path}.{library}").unlink(missing_ok=True)
    for turn in range(args.rounds + 1):
        for library, server in servers.items():
            time.sleep(REST)
            server.ask(json.dumps([str(path), rows, args.seconds if turn else 0]))
            best[library] = min(server.read(), best[library])  # NaN remains
    return best, difference(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.1, help="for each turn of a library")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each library")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10000])
    parser.add_argument("--only", default="", help="a regular expression for the models to measure")
    parser.add_argument("--folder", help="where models are kept, to train them only once")
    parser.add_argument("--before", metavar="DIR", help="the folder of another copy of this library")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve[0], args.threads[0])
        return
    libraries = ["ours", *(["before"] if args.before else []), "onnxruntime"]
    cells = [f"{n} rows, {k}" for n in args.rows for k in (*libraries, "speed")]
    print("| model | threads |", " | ".join(cells), f"|\n| --- |{' ---: |' * (len(cells) + 1)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        names = prepare(folder, args.only)
        for threads in args.threads:
            servers = {k: Server(k, "", args, threads, __file__) for k in libraries}
            for name in names:
                cells, far = [name, str(threads)], 0.0
                for rows in args.rows:
                    best, far = measured(Path(folder, name), rows, servers, args)
                    cells += [f"{1e6 * t:.4g} us" for t in best.values()]
                    cells += [f"{best['onnxruntime'] / best['ours']:.2f}"]
                    if far > 1e-3:
                        print(f"{name}, {rows} rows: outputs differ by {far:.1e}", file=sys.stderr)
                print("|", " | ".join(cells), "|", flush=True)
            for server in servers.values():
                server.close()


if __name__ == "__main__":
    main()
