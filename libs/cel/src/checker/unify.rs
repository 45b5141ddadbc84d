//! Type unification: decides which types are assignable, and infers type variables.

use crate::types::Type;

/// The inferred types of the type variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unifier {
    known: Vec<Option<Type>>,
}

impl Unifier {
    /// Makes a type variable about which nothing is known.
    pub(crate) fn fresh(&mut self) -> Type {
        let var = Type::Var(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        self.known.push(None);
        var
    }

    /// Returns the type with all inferred variables substituted.
    pub(crate) fn known(&self, ty: &Type) -> Type {
        match ty {
            Type::Var(var) => match self.value(*var) {
                Some(known) => self.known(known),
                None => ty.clone(),
            },
            Type::List(items) => Type::list(self.known(items)),
            Type::Map(keys, values) => Type::map(self.known(keys), self.known(values)),
            Type::Optional(inner) => Type::optional(self.known(inner)),
            Type::Type(inner) => Type::type_of(self.known(inner)),
            other => other.clone(),
        }
    }

    /// Substitutes like [`Unifier::known`], with dyn for the remaining variables.
    pub(crate) fn settle(&self, ty: &Type) -> Type {
        match ty {
            Type::Var(var) => self.value(*var).map_or(Type::Dyn, |known| self.settle(known)),
            Type::List(items) => Type::list(self.settle(items)),
            Type::Map(keys, values) => Type::map(self.settle(keys), self.settle(values)),
            Type::Optional(inner) => Type::optional(self.settle(inner)),
            Type::Type(inner) => Type::type_of(self.settle(inner)),
            other => other.clone(),
        }
    }

    /// Whether a value of type `from` may be used where `to` is expected. The types inferred on the way are kept, unless the answer is no.
    pub(crate) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        let before = self.known.clone();
        let fits = self.fits(&self.known(to), &self.known(from));
        if !fits {
            self.known = before;
        }
        fits
    }

    /// Whether values match expected types, all together.
    pub(crate) fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        let before = self.known.clone();
        let fit = to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.assignable(to, from));
        if !fit {
            self.known = before;
        }
        fit
    }

    fn value(&self, var: u32) -> Option<&Type> {
        self.known.get(usize::try_from(var).ok()?)?.as_ref()
    }

    fn fits(&mut self, to: &Type, from: &Type) -> bool {
        match (to, from) {
            (Type::Var(a), Type::Var(b)) if a == b => true,
            (Type::Var(var), other) | (other, Type::Var(var)) => self.learn(*var, other),
            (to, from) if to.is_dyn() || from.is_dyn() => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.inner(a, b),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.inner(ak, bk) && self.inner(av, bv),
            // Values of these types may be null.
            (Type::Timestamp | Type::Duration | Type::Object(_) | Type::Opaque(_) | Type::Optional(_), Type::Null) => {
                true
            }
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (a, b) => a == b,
        }
    }

    fn inner(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (self.known(a), self.known(b));
        self.fits(&a, &b)
    }

    /// Sets the type of a variable. Returns false when the type contains the variable itself.
    fn learn(&mut self, var: u32, ty: &Type) -> bool {
        if contains(ty, var) {
            return false;
        }
        if let Some(slot) = usize::try_from(var).ok().and_then(|var| self.known.get_mut(var)) {
            *slot = Some(ty.clone());
        }
        true
    }

    /// Widens the type of a variable, after a value of another type was found to match.
    pub(crate) fn widen(&mut self, var: &Type, ty: &Type) {
        let Type::Var(var) = var else { return };
        let Some(known) = self.value(*var).cloned() else { return };
        if says_less(&self.known(ty), &self.known(&known))
            && let Some(slot) = usize::try_from(*var).ok().and_then(|var| self.known.get_mut(var))
        {
            *slot = Some(ty.clone());
        }
    }
}

fn contains(ty: &Type, var: u32) -> bool {
    match ty {
        Type::Var(other) => *other == var,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => contains(inner, var),
        Type::Map(keys, values) => contains(keys, var) || contains(values, var),
        _ => false,
    }
}

fn says_less(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (a, _) if a.is_dyn() => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => says_less(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => says_less(ak, bk) && says_less(av, bv),
        _ => false,
    }
}
