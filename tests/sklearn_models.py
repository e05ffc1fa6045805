"""Models of scikit-learn, with what they were trained on: classifiers, regressors, transformers and whole pipelines.

`python tests/sklearn_models.py` converts them by skl2onnx and writes tests/data/sklearn.npz, which test_onnx_ml.py
reads: for each the ONNX model, the operands, and what scikit-learn itself answers.
"""

import warnings
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data" / "sklearn.npz"
TEXTS = ["the cat sat on the mat", "one dog and one cat", "the dog barks", "cats and dogs sit"] * 6


def samples(classes=3, rows=60, columns=5, seed=0):
    """Rows of features in groups that overlap, and the number of the group of each row."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    centres = rng.normal(size=(classes, columns))
    return (centres[y] + rng.normal(size=(rows, columns))).astype(np.float32), y


def models():
    """Tuples of a name, an estimator that is not trained yet, its operand, and its target."""
    from sklearn import (
        calibration,
        compose,
        decomposition,
        ensemble,
        feature_extraction,
        feature_selection,
        impute,
        linear_model,
        mixture,
        multiclass,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    x, y = samples()
    two, half = samples(2)
    positive, values = np.abs(x), (x @ np.arange(1, 6) + np.sin(x[:, 0])).astype(np.float32)
    both = np.stack([values, values[::-1]], 1)
    names = np.array(["red", "green", "blue"])[y]
    holes = np.where(np.random.default_rng(1).random(x.shape) < 0.2, np.nan, x).astype(np.float32)
    few = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
    yield "tree classifier", tree.DecisionTreeClassifier(max_depth=4, random_state=0), x, y
    yield "tree classifier of strings", tree.DecisionTreeClassifier(max_depth=4, random_state=0), x, names
    yield "tree classifier of two", tree.DecisionTreeClassifier(max_depth=3, random_state=0), two, half
    yield "tree regressor", tree.DecisionTreeRegressor(max_depth=4, random_state=0), x, values
    yield "tree regressor of two targets", tree.DecisionTreeRegressor(max_depth=4, random_state=0), x, both
    yield "forest classifier", ensemble.RandomForestClassifier(**few), x, y
    yield "forest regressor", ensemble.RandomForestRegressor(**few), x, values
    yield "extra trees classifier", ensemble.ExtraTreesClassifier(**few), x, names
    yield "extra trees regressor", ensemble.ExtraTreesRegressor(**few), x, values
    yield "boosting classifier", ensemble.GradientBoostingClassifier(**few), x, y
    yield "boosting classifier of two", ensemble.GradientBoostingClassifier(**few), two, half
    yield "boosting regressor", ensemble.GradientBoostingRegressor(**few), x, values
    yield "ada boost classifier", ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), x, y
    yield "ada boost regressor", ensemble.AdaBoostRegressor(n_estimators=5, random_state=0), x, values
    yield "bagging classifier", ensemble.BaggingClassifier(n_estimators=4, random_state=0), x, y
    yield "isolation forest", ensemble.IsolationForest(n_estimators=5, random_state=0), x, None
    yield (
        "voting classifier",
        ensemble.VotingClassifier(
            [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
            flatten_transform=False,
            voting="soft",
        ),
        x,
        y,
    )
    yield "logistic regression", linear_model.LogisticRegression(), x, y
    yield "logistic regression of two", linear_model.LogisticRegression(), two, half
    yield "linear regression", linear_model.LinearRegression(), x, values
    yield "linear regression of two targets", linear_model.LinearRegression(), x, both
    yield "ridge classifier", linear_model.RidgeClassifier(), x, y
    yield "elastic net", linear_model.ElasticNet(alpha=0.1), x, values
    yield "perceptron", linear_model.Perceptron(random_state=0), x, y
    for kernel in ("linear", "poly", "rbf", "sigmoid"):
        yield f"support vectors {kernel}", svm.SVC(kernel=kernel), x, y
    yield "support vectors of two", svm.SVC(), two, half
    yield "support vectors with probabilities", svm.SVC(probability=True, random_state=0), x, y
    yield "support vectors of two with probabilities", svm.SVC(probability=True, random_state=0), two, half
    yield "nu support vectors", svm.NuSVC(nu=0.3, probability=True, random_state=0), x, names
    yield "linear support vectors", svm.LinearSVC(random_state=0), x, y
    yield "support vector regression", svm.SVR(), x, values
    yield "nu support vector regression", svm.NuSVR(kernel="poly"), x, values
    yield "one class support vectors", svm.OneClassSVM(nu=0.2), x, None
    yield "neighbours classifier", neighbors.KNeighborsClassifier(3), x, y
    yield "neighbours regressor", neighbors.KNeighborsRegressor(3), x, values
    yield "gaussian bayes", naive_bayes.GaussianNB(), x, y
    yield "multinomial bayes", naive_bayes.MultinomialNB(), positive, y
    yield "bernoulli bayes", naive_bayes.BernoulliNB(), x, y
    yield "network classifier", neural_network.MLPClassifier((8,), max_iter=60, random_state=0), x, y
    yield (
        "network regressor",
        neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=60, random_state=0),
        x,
        values,
    )
    yield "gaussian mixture", mixture.GaussianMixture(2, random_state=0), x, None
    yield "calibrated classifier", calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2), x, y
    yield "one against all", multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), x, y
    for name in (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "PolynomialFeatures",
        "Binarizer",
        "PowerTransformer",
    ):
        yield name, getattr(preprocessing, name)(), x, None
    for norm in ("l1", "l2", "max"):
        yield f"Normalizer {norm}", preprocessing.Normalizer(norm), x, None
    yield (
        "KBinsDiscretizer",
        preprocessing.KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"),
        x,
        None,
    )
    yield "SimpleImputer", impute.SimpleImputer(), holes, None
    yield "KNNImputer", impute.KNNImputer(n_neighbors=2), holes, None
    yield "principal components", decomposition.PCA(2), x, None
    yield "truncated decomposition", decomposition.TruncatedSVD(2, random_state=0), x, None
    yield "selected columns", feature_selection.SelectKBest(k=2), x, y
    yield "OrdinalEncoder", preprocessing.OrdinalEncoder(), np.stack([names, names[::-1]], 1).astype(object), None
    yield "OneHotEncoder", preprocessing.OneHotEncoder(sparse_output=False), np.round(x), None
    yield (
        "OneHotEncoder of strings",
        preprocessing.OneHotEncoder(sparse_output=False),
        names[:, None].astype(object),
        None,
    )
    yield "LabelEncoder", preprocessing.LabelEncoder(), names.astype(object), None
    text = np.array(TEXTS, object)
    yield "counts of words", feature_extraction.text.CountVectorizer(), text, None
    yield "weighted words", feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2)), text, None
    yield (
        "classifier of texts",
        pipeline.make_pipeline(
            feature_extraction.text.TfidfVectorizer(lowercase=False), linear_model.LogisticRegression()
        ),
        text,
        y[:24],
    )
    yield "scaled and classified", pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()), x, names
    yield (
        "columns of two kinds",
        pipeline.make_pipeline(
            compose.ColumnTransformer(
                [("a", preprocessing.MinMaxScaler(), [0, 1]), ("b", preprocessing.StandardScaler(), [2, 3, 4])]
            ),
            ensemble.RandomForestClassifier(**few),
        ),
        x,
        y,
    )
    yield (
        "imputed and boosted",
        pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), ensemble.GradientBoostingRegressor(**few)),
        holes,
        values,
    )


def expected(model, x):
    """What scikit-learn answers, by method: those that the converted model has outputs for, in their order."""
    for methods in (
        ("predict", "predict_proba"),
        ("predict", "decision_function"),
        ("predict", "score_samples"),
        ("predict",),
        ("transform",),
    ):
        if all(hasattr(model, m) for m in methods):
            found = [getattr(model, m)(x) for m in methods]
            return [f.toarray() if hasattr(f, "toarray") else np.asarray(f) for f in found]
    raise TypeError(type(model).__name__)


def converted(model, x):
    """The ModelProto of a trained model, whose classifiers return arrays instead of dicts."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    text = x.dtype.kind == "O"
    shape = [None, x.shape[1]] if x.ndim == 2 else [None]
    kind = (StringTensorType if text else FloatTensorType)(shape)
    classifier = hasattr(model, "predict_proba") or hasattr(model, "decision_function") and hasattr(model, "classes_")
    options = {"zipmap": False} if classifier and type(model).__name__ not in ("LinearSVC", "GaussianMixture") else None
    return to_onnx(model, initial_types=[("x", kind)], options=options, target_opset={"": 18, "ai.onnx.ml": 3})


def trained():
    """Tuples of a name, a trained estimator, its operand, and the ModelProto."""
    for name, model, x, y in models():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            operand = x if x.dtype.kind == "O" else x.astype(np.float64)
            model.fit(operand) if y is None else model.fit(operand, y)
            yield name, model, x, converted(model, x)


def record():
    """Writes what test_onnx_ml.py reads."""
    arrays = {}
    for name, model, x, proto in trained():
        arrays[f"{name}/model"] = np.frombuffer(proto.SerializeToString(), np.uint8)
        arrays[f"{name}/x"] = x.astype(str) if x.dtype.kind == "O" else x
        for i, want in enumerate(expected(model, x)):
            arrays[f"{name}/{i}"] = want.astype(str) if want.dtype.kind == "O" else want
    np.savez_compressed(DATA, **arrays)


if __name__ == "__main__":
    record()
