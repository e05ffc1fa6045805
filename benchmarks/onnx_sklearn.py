"""Compares models of scikit-learn in ggml.onnx with onnxruntime: 1 row and 10,000 rows.

One library after the other, because a pool of threads that spins would slow the other one.

    pip install '.[onnx]' onnxruntime skl2onnx scikit-learn
    python benchmarks/onnx_sklearn.py --threads 2
"""

import argparse
import functools
import time
import warnings

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn import cluster, ensemble, linear_model, naive_bayes, neural_network, pipeline, preprocessing, svm

import ggml.onnx

ROWS, FEATURES = 2000, 20


def models():
    """Estimators by name; those of a number and those of three classes."""
    yield "random forest, 100 trees", ensemble.RandomForestClassifier(100, random_state=0)
    yield "gradient boosting, 100 trees", ensemble.GradientBoostingRegressor(random_state=0)
    yield (
        "scaled logistic regression",
        pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    )
    yield "support vectors", svm.SVC()
    yield "support vectors, probabilities", svm.SVC(probability=True)
    yield "support vectors, regression", svm.SVR()
    yield "network of 100 units", neural_network.MLPClassifier(max_iter=50, random_state=0)
    yield "AdaBoost, 20 trees", ensemble.AdaBoostClassifier(n_estimators=20)
    yield "isolation forest, 20 trees", ensemble.IsolationForest(n_estimators=20, random_state=0)
    yield "bagging of 5 trees", ensemble.BaggingClassifier(n_estimators=5, random_state=0)
    yield "naive Bayes", naive_bayes.GaussianNB()
    yield "k-means", cluster.KMeans(5, n_init=1, random_state=0)
    yield (
        "polynomial features, ridge",
        pipeline.make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
    )


def proto_of(model, x):
    """The ModelProto; classifiers return arrays."""
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    return to_onnx(model, x[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})


def best(model, data, seconds):
    """The best time of a call in microseconds."""
    time.sleep(0.1)  # threads that still spin go to sleep
    end, shortest = time.perf_counter() + seconds, np.inf
    while time.perf_counter() < end:
        begin = time.perf_counter()
        model(data)
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="for each model, number of rows and library")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) + (x[:, 3] > 1)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    print("| model | rows | ours | onnxruntime | speed |\n| --- | ---: | ---: | ---: | ---: |")
    for name, model in models():
        proto = proto_of(model.fit(x, y), x)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)
        own, key = ggml.onnx.load(proto, threads=options.threads), proto.graph.input[0].name
        for rows in (1, 10000):
            data = {key: np.resize(x, (rows, FEATURES))}
            for a, b in zip(own.run(data), session.run(None, data)):
                np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-3, atol=1e-3)
            ours = best(own.run, data, options.seconds)
            theirs = best(functools.partial(session.run, None), data, options.seconds)
            print(f"| {name} | {rows} | {ours:.0f} us | {theirs:.0f} us | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
